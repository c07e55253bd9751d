"""A job that came again and again runs under clues, alone if need be, and is buried when the clues prove its guilt."""

from __future__ import annotations

import json
from collections import Counter as Counts
from collections.abc import Callable

import pytest
from apps import fresh_lease, job
from other_machine import other_machine

from goworkers_py.core.clock import Clock
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable, PoisonPill
from goworkers_py.core.outcome import DONE, Dead, Outcome, Requeue, Reschedule
from goworkers_py.links.handlers import Handlers
from goworkers_py.observe.counters import Counters
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.runtime.running import runs_with_clues
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.runtime.running.runs_with_clues import GRACE_S, RunsWithClues
from goworkers_py.wire.message import Message


class Clues:
    """A server that keeps clues, and fails as the test wants."""

    def __init__(self) -> None:
        self.of_runs, self.alone = Counts[str](), set[str]()
        self.error: BrokerError | None = None
        self.lost: list[Delivery] = []

    def _serve(self) -> None:
        if self.error is not None:
            raise self.error

    def runs(self, name: str) -> int:
        self._serve()
        return self.of_runs[name]

    def ran_alone(self, name: str) -> bool:
        self._serve()
        return name in self.alone

    def leave(self, name: str) -> None:
        self._serve()
        self.of_runs[name] += 1

    def leave_alone(self, name: str) -> None:
        self._serve()
        self.alone.add(name)

    def take_back_alone(self, name: str) -> None:
        self._serve()
        self.alone.discard(name)

    def clear(self, name: str) -> None:
        self._serve()
        self.of_runs[name] = 0
        self.alone.discard(name)

    def is_ours(self, delivery: Delivery) -> bool:
        return delivery not in self.lost


class Killed(BaseException):
    """The process dies in the run: nothing of it goes on, as far as the server can see."""


class Wall(Clock):
    now = 1_000_000.0

    def wall(self) -> float:
        return self.now


class Ward:
    def __init__(self) -> None:
        self.clues, self.clock = Clues(), Wall()
        self.others = 0
        self.deaths: list[tuple[str, BaseException]] = []
        self.handlers = Handlers(death=[lambda message, error: self.deaths.append((message.jid, error))])
        self.start_process()

    def start_process(self) -> None:
        self.lease = fresh_lease()
        self.quarantine = Quarantine(
            PoisonPolicy(), self.lease, Clock(), self.beat, lambda delivery: self.others > 0, lambda: None
        )
        self.runs = RunsWithClues(self.clues, PoisonPolicy(), self.quarantine, self.handlers, Counters(), self.clock)

    def beat(self) -> None:
        self.quarantine.announced(self.quarantine.announcement())

    def run(
        self, raw: bytes = job(jid="j1"), chain: Callable[[Message], Outcome] = lambda message: DONE, clue: str = "m"
    ) -> Outcome:
        self.delivery = Delivery(raw, "q", self.lease.identity)
        self.delivery.clue_name = clue
        return self.runs.run(Message(raw, "q"), self.delivery, chain)

    def die(self, raw: bytes = job(jid="j1")) -> bool:
        """Runs the job in a process that it kills. Whether it ran alone."""
        alone: list[bool] = []

        def run(message: Message) -> Outcome:
            alone.append(self.quarantine.closed)
            self.clues.error = BrokerUnavailable("the process is dead")
            raise Killed

        with pytest.raises(Killed):
            self.run(raw, run)
        self.clues.error = None
        self.start_process()
        return alone[0]


@pytest.fixture
def ward() -> Ward:
    return Ward()


def record_of(outcome: Outcome) -> dict[str, object]:
    assert isinstance(outcome, Requeue | Reschedule)
    assert outcome.payload is not None
    record: dict[str, object] = json.loads(outcome.payload)["recovered"]
    return record


def never(message: Message) -> Outcome:
    pytest.fail("it ran")


def test_a_job_without_the_name_of_clues_leaves_none(ward: Ward) -> None:
    ward.clues.error = BrokerUnavailable("not asked")
    assert ward.run(clue="") is DONE


def test_a_clue_stands_while_the_job_runs(ward: Ward) -> None:
    def run(message: Message) -> Outcome:
        assert (ward.clues.of_runs["m"], ward.clues.alone) == (1, set())
        assert message.raw == job(jid="j1"), "the job sees nothing of it"
        return DONE

    assert ward.run(chain=run) is DONE
    assert ward.clues.of_runs["m"] == 0


def test_a_job_that_kills_its_process_runs_alone_at_last_and_is_buried_after_a_time_of_grace(ward: Ward) -> None:
    assert [ward.die() for _ in range(3)] == [False, False, True]
    waits = ward.run(chain=never)
    assert isinstance(waits, Reschedule)
    assert waits.at == ward.clock.now + GRACE_S
    assert record_of(waits) == {
        "v": 1, "count": 3, "since": ward.clock.now, "mark": "m", "verdict": waits.at,
    }  # fmt: skip
    ward.clock.now += GRACE_S + 1
    buried = ward.run(waits.payload, never, clue="")
    assert isinstance(buried, Dead)
    fields = json.loads(buried.payload)
    assert fields["error_class"] == "goworkers_py.PoisonPill"
    assert "recovered" not in fields
    assert [(jid, type(error)) for jid, error in ward.deaths] == [("j1", PoisonPill)]


def test_a_job_whose_time_of_grace_is_not_over_waits_on(ward: Ward) -> None:
    assert [ward.die() for _ in range(3)]
    waits = ward.run(chain=never)
    assert isinstance(waits, Reschedule)
    ward.clock.now += 1
    again = ward.run(waits.payload, never, clue="")
    assert isinstance(again, Reschedule)
    assert again.at == waits.at


def test_a_clue_that_is_taken_back_in_the_time_of_grace_saves_the_job_and_the_next_one_has_its_own(ward: Ward) -> None:
    assert [ward.die() for _ in range(3)]
    waits = ward.run(chain=never)
    assert isinstance(waits, Reschedule)
    ward.clues.alone.clear()
    ward.clock.now += GRACE_S + 1
    back = ward.run(waits.payload, never, clue="")
    assert isinstance(back, Requeue)
    assert back.payload is not None
    assert back.last
    assert "verdict" not in record_of(back)
    assert ward.die(back.payload)
    assert isinstance(ward.run(back.payload, never, clue=""), Reschedule)


@pytest.mark.parametrize("deaths", range(3))
def test_a_run_that_ends_takes_all_clues_back(ward: Ward, deaths: int) -> None:
    assert len([ward.die() for _ in range(min(deaths, 2))]) == deaths
    assert ward.run() is DONE
    assert (ward.clues.of_runs["m"], ward.clues.alone, ward.quarantine.closed) == (0, set(), False)


def test_clues_of_runs_beside_other_jobs_convict_none(ward: Ward) -> None:
    ward.clues.of_runs["m"] = 20
    assert ward.run() is DONE


def test_a_suspect_that_cannot_run_alone_keeps_the_name_of_its_clues(ward: Ward) -> None:
    assert [ward.die() for _ in range(2)] == [False, False]
    ward.others = 1
    later = ward.run(chain=never)
    assert record_of(later) == {"v": 1, "count": 2, "since": ward.clock.now, "mark": "m", "rounds": 1}
    assert ward.clues.of_runs["m"] == 2


def test_a_job_that_cannot_be_run_now_goes_back_with_the_name_of_its_clues(ward: Ward) -> None:
    assert [ward.die() for _ in range(2)]
    other = Delivery(job(jid="other"), "q", "another identity")
    for refused in ("the clues cannot be read", "the delivery is of an identity that was declared dead"):
        ward.clues.error = BrokerUnavailable("gone") if refused.startswith("the clues") else None
        other.clue_name = "m"
        outcome = ward.runs.run(Message(other.payload, "q"), other, never)
        assert isinstance(outcome, Requeue)
        assert outcome.last
        assert record_of(outcome)["mark"] == "m"


@pytest.mark.parametrize("verb", ["runs", "leave"])
def test_no_second_message_is_made_of_a_delivery_that_was_lost_with_the_clues(
    ward: Ward, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network is cut, which the connection that brings the jobs notices a moment later."""

    def notice(seconds: float) -> None:
        assert seconds == runs_with_clues.KNOWN_LOST_S
        ward.clues.lost.append(ward.delivery)

    def fail(name: str) -> None:
        monkeypatch.setattr(runs_with_clues, "machine", other_machine(sleep=notice))
        raise BrokerUnavailable("gone")

    setattr(ward.clues, verb, fail)
    assert ward.run(chain=never) == Requeue()


def test_no_job_begins_whose_clue_cannot_be_left(ward: Ward) -> None:
    def fail(name: str) -> None:
        raise BrokerUnavailable("gone")

    ward.clues.leave = fail  # type: ignore[method-assign]
    outcome = ward.run(chain=never)
    assert isinstance(outcome, Requeue)
    assert record_of(outcome)["mark"] == "m"


def test_a_server_that_refuses_clues_does_not_keep_the_job_from_running(ward: Ward) -> None:
    ward.clues.error = BrokerRefused("no permission")
    assert ward.run() is DONE


def test_a_suspect_does_not_run_when_the_clue_of_its_run_alone_cannot_be_left(ward: Ward) -> None:
    ward.clues.of_runs["m"] = 2
    leave_alone = ward.clues.leave_alone

    def unsure(name: str) -> None:
        leave_alone(name)
        raise BrokerUnavailable("the reply was lost")

    ward.clues.leave_alone = unsure  # type: ignore[method-assign]
    assert isinstance(ward.run(chain=never), Requeue)
    assert (ward.clues.alone, ward.quarantine.closed) == (set(), False)


@pytest.mark.parametrize("why", ["it was given to another process", "the process stops"])
def test_the_clue_of_a_run_alone_is_taken_back_when_it_proves_nothing_any_more(ward: Ward, why: str) -> None:
    ward.clues.of_runs["m"] = 2

    def run(message: Message) -> Outcome:
        assert ward.clues.alone == {"m"}
        ward.beat()
        assert ward.clues.alone == {"m"}
        if why == "the process stops":
            ward.quarantine.stop()
        else:
            ward.clues.lost.append(ward.delivery)
        ward.beat()
        assert ward.clues.alone == set()
        assert ward.quarantine.closed is (why == "the process stops")
        return DONE

    assert ward.run(chain=run) is DONE


def test_no_other_job_begins_while_the_clue_of_a_run_alone_may_stand(ward: Ward) -> None:
    ward.clues.of_runs["m"] = 2

    def run(message: Message) -> Outcome:
        ward.clues.error = BrokerUnavailable("gone")
        return DONE

    assert ward.run(chain=run) is DONE
    ward.delivery.stage = Stage.ENDED
    ward.beat()
    assert (ward.clues.alone, ward.quarantine.closed) == ({"m"}, True)
    ward.clues.error = None
    ward.beat()
    assert (ward.clues.alone, ward.quarantine.closed) == (set(), False)


def test_a_job_that_ruby_cannot_read_is_buried_without_a_wait_in_the_schedule(ward: Ward) -> None:
    raw = job(jid="j1").replace(b'"jid"', b'"big":1e999,"jid"')
    assert [ward.die(raw) for _ in range(3)] == [False, False, True]
    assert isinstance(ward.run(raw, never), Dead)


def test_a_record_of_a_later_version_is_left_alone(ward: Ward) -> None:
    ward.clues.of_runs["m"] = 20
    ward.clues.alone.add("m")
    assert ward.run(job(jid="j1", recovered={"v": 2, "count": 20, "since": 1.0, "mark": "m"})) is DONE
