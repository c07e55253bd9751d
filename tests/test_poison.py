"""Jobs that kill their process are found and buried; those that ran beside them are not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, job
from fleet import Fleet
from waiting import eventually

from goworkers_py import trial as trial_module
from goworkers_py.errors import BrokerUnavailable, PoisonPill
from goworkers_py.message import Message, Timestamps
from goworkers_py.middleware.chain import Run
from goworkers_py.options import CodeOptions
from goworkers_py.outcome import DONE, REQUEUE_LAST, Outcome
from goworkers_py.poison import Fate, PoisonPolicy, name_on_trial
from goworkers_py.trial import Trial

NOW = 1_700_000_000.0
EARLIER = NOW - 3_600


def judge(raw: bytes, begun: bool = True, trial: str = "", now: float = NOW, **policy: Any) -> Fate:
    return PoisonPolicy(**policy).judge(raw, "q", "host:1:abc", begun, trial, now)


def struck(count: Any, since: Any = EARLIER, **more: Any) -> bytes:
    return job(**{"jid": "j1", "recovered": {"count": count, "since": since}, **more})


# --- what becomes of a job that was found in a dead process's list


def test_the_first_recovery_is_noted_in_the_job_with_its_time() -> None:
    raw = b'{"class":"J","args":[1.10,1E3,"\\u00e9"],"jid":"j1","x":{}'
    assert judge(raw + b"}") == Fate(raw + b',"recovered":{"count":1,"since":1700000000.0}}')


def test_a_later_one_counts_on_and_keeps_the_time_of_the_first() -> None:
    assert json.loads(judge(struck(1)).payload) == json.loads(struck(2))


@pytest.mark.parametrize("raw", [struck(2), b"no job", b""])
def test_what_only_waited_there_and_what_is_no_job_goes_back_as_it_was(raw: bytes) -> None:
    assert judge(raw, begun=False, trial="j1") == Fate(raw)
    assert judge(b"no job", trial="j1") == Fate(b"no job")


def test_a_job_on_trial_is_buried_at_the_limit_and_says_why() -> None:
    fate = judge(struck(2, at=1, other=[1]), trial="j1")
    assert (fate.buried, fate.discarded) == (True, False)
    assert json.loads(fate.payload) == {
        **json.loads(job(jid="j1", other=[1])),
        "error_class": "goworkers_py.errors.PoisonPill",
        "error_message": "3 processes died while they ran this job, the last one was host:1:abc; it is not tried again",
        "failed_at": NOW,
        "retry_count": 0,
    }
    assert isinstance(fate.error, PoisonPill)


def test_a_job_that_had_failed_before_keeps_the_record_of_it() -> None:
    fate = judge(struck(2, failed_at=EARLIER, retry_count=4), trial="j1", timestamps=Timestamps("ms"))
    buried = json.loads(fate.payload)
    assert (buried["failed_at"], buried["retried_at"], buried["retry_count"]) == (EARLIER, NOW * 1000, 4)


def test_a_job_that_does_not_want_to_be_buried_is_discarded() -> None:
    fate = judge(struck(2, dead=False), trial="j1")
    assert (fate.buried, fate.discarded) == (False, True)
    assert isinstance(fate.error, PoisonPill)


def test_the_code_of_the_job_says_too_whether_it_is_buried() -> None:
    policy = PoisonPolicy(options_for=lambda message: CodeOptions(dead=False))
    fate = policy.judge(struck(2), "q", "host:1:abc", True, "j1", NOW)
    assert (fate.buried, fate.discarded) == (False, True)
    fate = policy.judge(struck(2, dead=True), "q", "host:1:abc", True, "j1", NOW)
    assert (fate.buried, fate.discarded) == (True, False)


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_a_job_that_was_not_on_trial_stays_at_the_brink(limit: int) -> None:
    raw = job(jid="j1")
    for _ in range(limit + 2):
        fate = judge(raw, trial="another", limit=limit)
        assert fate.error is None
        raw = fate.payload
    assert json.loads(raw)["recovered"] == {"count": limit - 1, "since": NOW}
    assert PoisonPolicy(limit).is_suspect(Message(raw, "q"))
    assert judge(raw, trial="j1", limit=limit).buried


def test_a_job_without_a_jid_is_buried_for_its_own_trial_only() -> None:
    raw = job(recovered={"count": 2, "since": EARLIER})
    assert not judge(raw, trial="").buried
    assert judge(raw, trial=name_on_trial(Message(raw, "q"))).buried


def test_deaths_that_are_long_past_do_not_count() -> None:
    assert judge(struck(2), trial="j1", now=EARLIER + 72 * 3_600).buried
    fate = judge(struck(2), trial="j1", now=EARLIER + 72 * 3_600 + 1)
    assert json.loads(fate.payload)["recovered"] == {"count": 1, "since": EARLIER + 72 * 3_600 + 1}
    assert not judge(struck(2), trial="j1", window_s=3_599).buried


@pytest.mark.parametrize("since", [None, "yesterday", [], True])
def test_a_time_that_is_none_starts_the_count_anew(since: Any) -> None:
    assert json.loads(judge(struck(2, since=since), trial="j1").payload)["recovered"]["count"] == 1


@pytest.mark.parametrize("told", [None, "2", [2], True, {"count": "2"}, {"count": -7, "since": EARLIER}, {}])
def test_a_count_that_is_none_starts_anew(told: Any) -> None:
    assert json.loads(judge(job(jid="j1", recovered=told), trial="j1").payload)["recovered"]["count"] == 1


def test_without_a_limit_nothing_is_counted_and_nothing_buried() -> None:
    assert judge(struck(50), trial="j1", limit=0) == Fate(struck(50))
    assert not PoisonPolicy(0).is_suspect(Message(struck(50), "q"))


@pytest.mark.parametrize(("count", "suspect"), [(0, False), (1, False), (2, True), (3, True), ("2", False)])
def test_a_suspect_is_one_death_from_the_limit(count: Any, suspect: bool) -> None:
    assert PoisonPolicy().is_suspect(Message(struck(count), "q")) is suspect
    assert not PoisonPolicy().is_suspect(Message(job(), "q"))


# --- how a suspect is run

SUSPECT = Message(struck(2), "q")


class Court:
    """A Trial whose announcements are seen, and the jobs that it let run."""

    def __init__(self, answer: bool | Exception = True) -> None:
        self.trial = Trial(PoisonPolicy(), self._announce)
        self.announced: list[tuple[str, str]] = []
        self.ran: list[str] = []
        self._answer = answer

    def _announce(self, name: str, owner: str) -> bool:
        self.announced.append((name, owner))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def run(self, message: Message, chain: Run | None = None) -> Outcome:
        return self.trial.run(message, "me", chain or self._note)

    def _note(self, message: Message) -> Outcome:
        self.ran.append(message.jid)
        return DONE


def test_a_job_that_is_no_suspect_runs_without_ado() -> None:
    court = Court(BrokerUnavailable("not asked"))
    assert court.run(Message(job(jid="j0"), "q")) is DONE
    assert (court.announced, court.ran) == ([], ["j0"])


def test_a_suspect_is_announced_and_then_run() -> None:
    court = Court()
    assert court.run(SUSPECT) is DONE
    assert (court.announced, court.ran) == ([("j1", "me")], ["j1"])


@pytest.mark.parametrize("answer", [False, BrokerUnavailable("timed out")], ids=["not ours", "no server"])
def test_a_suspect_that_cannot_be_announced_goes_back_to_its_queue(answer: bool | Exception) -> None:
    court = Court(answer)
    assert court.run(SUSPECT) is REQUEUE_LAST
    assert court.run(SUSPECT) is REQUEUE_LAST, "its turn has ended"
    assert not court.ran


def test_suspects_run_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "TURN_WAIT_S", 0.05)
    court, begun, over = Court(), threading.Event(), threading.Event()

    def first(message: Message) -> Outcome:
        begun.set()
        over.wait(10)
        return DONE

    thread = threading.Thread(target=court.run, args=(SUSPECT, first))
    thread.start()
    begun.wait(10)
    assert court.run(Message(struck(2, jid="j2"), "q")) is REQUEUE_LAST
    assert court.run(Message(job(jid="j0"), "q")) is DONE, "others run on"
    over.set()
    thread.join()
    assert court.run(Message(struck(2, jid="j2"), "q")) is DONE
    assert (court.announced, court.ran) == ([("j1", "me"), ("j2", "me")], ["j0", "j2"])


def test_a_suspect_that_fails_gives_the_turn_to_the_next() -> None:
    def fail(message: Message) -> Outcome:
        raise SystemExit

    court = Court()
    with pytest.raises(SystemExit):
        court.run(SUSPECT, fail)
    assert court.run(SUSPECT) is DONE


# --- for real


@pytest.fixture
def fleet(tmp_path: Path, redis_url: str, redis: redis_py.Redis) -> Iterator[Fleet]:
    with Fleet(tmp_path, redis_url, redis) as fleet:
        yield fleet


@pytest.mark.slow
@pytest.mark.parametrize("wants_burial", [True, False])
def test_a_job_that_kills_its_process_ends_after_three_and_its_neighbours_do_not(
    fleet: Fleet, redis: redis_py.Redis, wants_burial: bool
) -> None:
    """They run beside it each time that it strikes, and are in every process that dies."""
    neighbours = [f"neighbour{number}" for number in range(4)]
    for jid in neighbours:
        fleet.push(jid, "Gated", "gate")
    fleet.push("poison", "Fatal", len(neighbours), dead=wants_burial)
    deaths = 0
    while not (fleet.directory / "death-poison").exists():
        assert deaths < 10, fleet.told()
        # Two deaths make all of them suspects, which run one after the other.
        if deaths == 2:
            fleet.open("gate")
        process = fleet.start("-q", "q=6").process
        assert eventually(lambda p=process: p.poll() is not None or _told_of_death(fleet)), fleet.told()
        deaths += process.poll() is not None
    assert deaths == 3
    assert eventually(lambda: not in_progress(redis) and not redis.exists("queue:q", "retry")), fleet.told()
    assert fleet.count("began")["poison"] == 3
    assert set(fleet.count("ended")) == set(neighbours)
    assert min(fleet.count("began").values()) == 3, "they had begun each time"
    assert fields(redis.zrange("dead", 0, -1), "jid") == (["poison"] if wants_burial else [])
    assert "3 processes died while they ran this job" in (fleet.directory / "death-poison").read_text()
    assert fleet.daemons[-1].output.count("ERROR: poison: class=Fatal jid=poison queue=q") == 1


def _told_of_death(fleet: Fleet) -> bool:
    return (fleet.directory / "death-poison").exists()
