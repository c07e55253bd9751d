"""A suspect runs alone in its process, and is told of before it runs; the process goes on whatever comes of it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis as redis_py
from apps import fields, fresh_lease, in_progress, job, own_app, queue, started
from fleet import Fleet
from hasty import hasty
from waiting import eventually

from goworkers_py.config.options import QueueConfig
from goworkers_py.core.clock import Clock
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.outcome import DONE, REQUEUE, REQUEUE_LAST, Outcome, Reschedule
from goworkers_py.policy.poison import ALONE_S, AWAY_S, PATIENCE_S, PoisonPolicy, name_of
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.wire.message import Message


def suspect(jid: str = "j1", count: int = 2, rounds: int = 0) -> bytes:
    return job(jid=jid, recovered={"v": 1, "count": count, "since": time.time(), "rounds": rounds})


class HandClock(Clock):
    """Its monotonic time passes only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class Ward:
    """A quarantine whose server answers as the test wants, and whose other jobs are the test's. Time passes only
    as the test says: by `clock`, and by `a_look_takes_s` whenever the quarantine looks whether other jobs run."""

    def __init__(self) -> None:
        self.lease, self.clock = fresh_lease(), HandClock()
        self.others, self.a_look_takes_s = 0, 0.0
        self.serves = True
        self.told: list[str] = []
        self.names: dict[str, str] = {}
        self.given_back = 0
        self.quarantine = Quarantine(
            PoisonPolicy(), self.lease, self.clock, self.beat, self._others_run, self._give_back
        )

    def beat(self) -> None:
        name = self.quarantine.announcement()
        self.told.append(self.names.get(name, name))
        if not self.serves:
            raise BrokerUnavailable("timed out")
        self.quarantine.announced(name)

    def _others_run(self, delivery: Delivery) -> bool:
        self.clock.now += self.a_look_takes_s
        return self.others > 0

    def _give_back(self) -> None:
        assert self.quarantine.closed
        self.given_back += 1

    def run(self, raw: bytes, chain: Callable[[Message], Outcome] = lambda message: DONE, owner: str = "") -> Outcome:
        message, delivery = Message(raw, "q"), Delivery(raw, "q", owner or self.lease.identity)
        self.names[name_of(message)] = message.jid
        return self.quarantine.run(message, delivery, chain)


@pytest.fixture
def ward() -> Ward:
    return Ward()


def test_a_job_that_is_no_suspect_runs_without_ado(ward: Ward) -> None:
    ward.serves = False
    assert ward.run(suspect(count=1)) is DONE
    assert (ward.told, ward.given_back) == ([], 0)


def test_a_suspect_is_told_of_then_run_and_then_its_name_is_taken_back(ward: Ward) -> None:
    def run(message: Message) -> Outcome:
        assert ward.told == ["j1"]
        assert ward.quarantine.closed
        return DONE

    assert ward.run(suspect(), run) is DONE
    assert (ward.told, ward.given_back) == (["j1", ""], 1)
    assert not ward.quarantine.closed


def test_a_suspect_is_not_run_when_the_server_cannot_be_told(ward: Ward) -> None:
    ward.serves = False
    assert ward.run(suspect(), lambda message: pytest.fail("it ran")) is REQUEUE_LAST
    assert ward.quarantine.closed, "the name may stand on the server"
    ward.serves = True
    ward.beat()
    assert not ward.quarantine.closed


def test_a_suspect_that_lies_in_the_list_of_another_identity_is_not_run(ward: Ward) -> None:
    assert ward.run(suspect(), lambda message: pytest.fail("it ran"), owner="before:1:a") is REQUEUE_LAST
    assert not ward.quarantine.closed


def test_no_job_begins_before_the_server_knows_that_the_suspect_is_over(ward: Ward) -> None:
    def run(message: Message) -> Outcome:
        ward.serves = False
        return DONE

    assert ward.run(suspect(), run) is DONE
    assert ward.quarantine.closed
    ward.serves = True
    ward.beat()
    assert ward.told == ["j1", "", ""]
    assert not ward.quarantine.closed


def test_a_beat_while_a_suspect_still_waits_does_not_let_the_others_begin(ward: Ward) -> None:
    ward.others = 1
    thread = threading.Thread(target=ward.run, args=(suspect(),))
    thread.start()
    assert eventually(lambda: ward.quarantine.closed)
    ward.beat()
    assert (ward.told, ward.quarantine.closed) == ([""], True)
    ward.others = 0
    thread.join(20)
    assert ward.told == ["", "j1", ""]


def test_a_suspect_that_ruby_cannot_read_waits_once_and_then_runs_beside_the_others(
    ward: Ward, caplog: pytest.LogCaptureFixture
) -> None:
    """Ruby reads the schedule: there it cannot wait for its next round."""
    ward.others, ward.a_look_takes_s = 1, 0.5

    def run(message: Message) -> Outcome:
        assert not ward.quarantine.closed
        return DONE

    began = ward.clock.now
    assert ward.run(suspect().replace(b'"args": []', b'"args": [1e400]'), run) is DONE
    assert PATIENCE_S[0] <= ward.clock.now - began < PATIENCE_S[1]
    assert ward.told == []
    assert "it cannot wait in the schedule, because it holds the number 1e400" in caplog.text
    assert "comes back" not in caplog.text


def test_a_suspect_that_cannot_be_alone_comes_back_and_waits_longer_next_time(ward: Ward) -> None:
    ward.others = 1
    raw = suspect()
    for round_, (patience_s, away_s) in enumerate(zip(PATIENCE_S, AWAY_S, strict=True), 1):
        ward.clock.now += 1_000  # since its last round, so that it may wait again
        began, ward.a_look_takes_s = ward.clock.now, patience_s / 4
        earliest = time.time() + away_s
        outcome = ward.run(raw)
        assert patience_s <= ward.clock.now - began <= 1.5 * patience_s
        assert isinstance(outcome, Reschedule)
        assert earliest - 1 <= outcome.at <= time.time() + away_s + 1
        raw = outcome.payload
        assert json.loads(raw)["recovered"]["rounds"] == round_
        assert not ward.quarantine.closed
    assert ward.run(raw) is DONE, "in the end it runs beside the others"
    assert ward.told == [], "which proves nothing"
    ward.others = 0
    assert ward.run(raw) is DONE
    assert ward.told == ["j1", ""], "where there are none it runs alone"


def test_a_suspect_without_a_jid_is_given_one(ward: Ward) -> None:
    ward.others, ward.a_look_takes_s = 1, 1.0
    outcome = ward.run(suspect(""))
    assert isinstance(outcome, Reschedule)
    assert json.loads(outcome.payload)["jid"], "equal bytes fall together in a sorted set"


def test_after_a_wait_in_vain_other_jobs_are_not_held_up_again_for_long(ward: Ward) -> None:
    ward.others, ward.a_look_takes_s = 1, 0.5
    assert isinstance(ward.run(suspect()), Reschedule)
    waited_until = ward.clock.now
    assert isinstance(ward.run(suspect("j2", rounds=1)), Reschedule)
    assert ward.clock.now - waited_until < PATIENCE_S[0], "it does not wait"
    ward.others = 0
    assert ward.run(suspect("j3")) is DONE
    assert ward.told == ["j3", ""], "where nothing runs it need not wait"


def test_a_process_that_is_closed_for_long_tells_it(ward: Ward) -> None:
    def run(message: Message) -> Outcome:
        assert ward.quarantine.trouble == ""
        ward.clock.now += 19
        assert ward.quarantine.trouble == ""
        ward.clock.now += 2
        assert ward.quarantine.trouble.startswith("has begun no other jobs for 21 s, for a suspect of having crashed")
        assert ward.quarantine.trouble.endswith("alone: class=J jid=j1")
        return DONE

    assert ward.run(suspect(), run) is DONE
    assert ward.quarantine.trouble == ""


def test_a_stop_takes_the_name_of_a_suspect_back(ward: Ward) -> None:
    """Whoever kills a process that stops does not wait for its jobs."""

    def run(message: Message) -> Outcome:
        ward.quarantine.stop()
        ward.beat()
        return DONE

    assert ward.run(suspect(), run) is DONE
    assert ward.told == ["j1", "", ""]


def test_the_child_of_a_link_that_forks_lets_nobody_begin(ward: Ward) -> None:
    def forking(message: Message) -> Outcome:
        pid = os.fork()
        if pid:
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            return DONE
        raise SystemExit  # comes back out of the chain

    try:
        assert ward.run(suspect(), forking) is DONE
    except SystemExit:
        os._exit(0 if ward.told == ["j1"] and ward.quarantine.closed else 1)
    assert ward.told == ["j1", ""]


def test_a_stop_sends_a_suspect_that_waits_back(ward: Ward) -> None:
    ward.others = 1
    ward.quarantine.stop()
    assert ward.run(suspect(count=50)) is REQUEUE
    assert not ward.quarantine.closed


def test_one_suspect_at_a_time(ward: Ward) -> None:
    def run(message: Message) -> Outcome:
        outcome = ward.run(suspect("j2"))
        assert ward.quarantine.closed
        return outcome

    assert ward.run(suspect(), run) is REQUEUE_LAST
    assert ward.told == ["j1", ""]
    assert ward.run(suspect("j2")) is DONE


def test_a_beat_that_told_the_name_and_is_answered_late_lets_nobody_begin(ward: Ward) -> None:
    late: list[str] = []

    def run(message: Message) -> Outcome:
        late.append(ward.quarantine.announcement())
        ward.serves = False
        return DONE

    assert ward.run(suspect(), run) is DONE
    ward.quarantine.announced(late[0])
    assert ward.quarantine.closed
    ward.quarantine.announced("")
    assert not ward.quarantine.closed


def test_a_suspect_that_fails_lets_the_others_begin(ward: Ward) -> None:
    def fail(message: Message) -> Outcome:
        raise SystemExit

    with pytest.raises(SystemExit):
        ward.run(suspect(), fail)
    assert not ward.quarantine.closed


def test_a_suspect_that_runs_for_long_is_not_alone_for_ever(ward: Ward, caplog: pytest.LogCaptureFixture) -> None:
    def run(message: Message) -> Outcome:
        ward.clock.now += ALONE_S - 1
        ward.beat()
        assert ward.quarantine.closed
        ward.clock.now += 2
        ward.beat()
        assert not ward.quarantine.closed
        return ward.run(suspect("j2"))

    assert ward.run(suspect(), run) is DONE
    assert "suspect has run alone for long; other jobs run beside it now: class=J jid=j1" in caplog.text
    assert not ward.quarantine.closed


def test_the_process_opens_again_when_a_worker_was_struck_outside_of_every_clean_up(ward: Ward) -> None:
    delivery = Delivery(suspect(), "q", ward.lease.identity)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ward.quarantine, "_release", lambda suspect: None)
        assert ward.quarantine.run(Message(delivery.payload, "q"), delivery, lambda message: DONE) is DONE
    ward.beat()
    assert ward.quarantine.closed
    delivery.stage = Stage.ENDED  # as the worker does that starts again
    ward.beat()
    assert not ward.quarantine.closed


# --- in a daemon


def test_other_jobs_wait_elsewhere_while_a_suspect_runs(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """In their queues: nothing of another queue runs either, and the order stays."""
    ran: list[str] = []
    open_ = {name: threading.Event() for name in ("first", "suspect")}

    def run(message: Message) -> None:
        ran.append(message.jid)
        if message.jid in open_:
            assert open_[message.jid].wait(30)

    with own_app(redis_url, QueueConfig("q", concurrency=3, prefetch=5), QueueConfig("other", concurrency=2)) as app:
        app.registry.handle("q", run)
        app.registry.handle("other", run)
        redis.lpush("queue:q", job(jid="first"))
        with started(app) as launcher:
            assert eventually(lambda: ran == ["first"])
            redis.lpush("queue:q", suspect("suspect", rounds=3))  # it waits long: the machine may be slow
            assert eventually(lambda: "waits up to 60 s for other jobs" in caplog.text)  # from here on none begins
            numbers = [str(number) for number in range(20)]
            redis.lpush("queue:q", *(job(jid=number) for number in numbers))
            redis.lpush("queue:other", job(jid="other"))
            open_["first"].set()
            assert eventually(lambda: ran == ["first", "suspect"])
            # A fetch that was on its way may take one, which goes back.
            assert eventually(lambda: len(in_progress(redis)) == 1 and fields(queue(redis), "jid") == numbers)
            assert ran == ["first", "suspect"]
            open_["suspect"].set()
            assert eventually(lambda: len(ran) == 23)
            assert launcher.stop()
    assert not in_progress(redis)


# --- for real


def _work_until(fleet: Fleet, done: Callable[[], bool], *flags: str, constants: dict[str, float]) -> int:
    """One process after the other, as a supervisor starts them; returns how many have died."""
    for deaths in range(20):
        process = fleet.start(*flags, prefix=hasty(constants)).process
        assert eventually(lambda p=process: done() or p.poll() is not None, 60), fleet.told()  # type: ignore[misc]
        if process.poll() is None:
            return deaths
    raise AssertionError(fleet.told())


@pytest.mark.timeout(120)
def test_a_suspect_beside_which_another_job_kills_the_process_is_not_convicted(
    fleet: Fleet, redis: redis_py.Redis
) -> None:
    """It was near at two deaths already, and is still there when its time alone is over and the killer begins."""
    fleet.push("bystander", "Gated", "gate", recovered={"count": 2, "since": time.time()})
    first = fleet.start("-q", "q=5", prefix=hasty({"policy.poison.ALONE_S": 5.0, "timing.beat_every_s": 0.1}))
    fleet.await_run("began", "bystander")
    fleet.push("killer", "Fatal", 0)
    assert eventually(lambda: first.process.poll() is not None, 30), fleet.told()
    [began], [killed] = fleet.of("began", "bystander"), fleet.of("began", "killer")
    # The time alone begins before the bystander tells that it runs, and on a busy machine long before.
    assert killed.at - began.at > 1.0, "the killer waited while the bystander ran alone"
    fleet.open("gate")
    deaths = _work_until(fleet, lambda: bool(redis.exists("dead")), "-q", "q=5", constants={})
    assert deaths == 2
    assert eventually(lambda: not fleet.lists() and not redis.exists("queue:q")), fleet.told()
    assert fields(redis.zrange("dead", 0, -1), "jid") == ["killer"]
    # Once more, where the killer strikes between its end and the settlement of that.
    assert fleet.count("ended").keys() == {"bystander"}


@pytest.mark.timeout(180)
def test_with_a_fixed_prefetch_and_short_jobs_the_killer_is_found_and_nobody_else(
    fleet: Fleet, redis: redis_py.Redis, tmp_path: Path
) -> None:
    conf = tmp_path / "conf.ini"
    conf.write_text("[queue:q]\nconcurrency = 10\nprefetch = 100\n")
    jids = [f"short{number}" for number in range(400)]
    for jid in jids[:200]:
        fleet.push(jid, "Short")
    fleet.push("killer", "Fatal", 0)
    for jid in jids[200:]:
        fleet.push(jid, "Short")
    _work_until(fleet, lambda: bool(redis.exists("dead")), "-c", str(conf), constants={})
    assert eventually(lambda: set(fleet.count("began")) == {*jids, "killer"}, 60), fleet.told()
    assert eventually(lambda: not fleet.lists() and not redis.exists("queue:q"), 60), fleet.told()
    assert fields(redis.zrange("dead", 0, -1), "jid") == ["killer"]
