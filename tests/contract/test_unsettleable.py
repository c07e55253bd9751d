"""A delivery that cannot be settled holds up no other: each result of `settle` is that of its delivery alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from harness import Process, Processes, job, jobs, payloads, waiting
from obstacles import obstructed
from waiting import eventually

from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.contracts.recoverable import FoundJob, Recoverable
from goworkers_py.brokers.contracts.transport import Finished, Settled
from goworkers_py.brokers.rabbitmq import publisher
from goworkers_py.core.effect import PushJobs, StoreValue
from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.core.outcome import DONE, Dead, Discard, Done, Outcome, Park, Requeue, Reschedule, Retry
from goworkers_py.features.for_ruby.end import pushed as echo_pushed
from goworkers_py.features.limits.effects import LeaveSlot
from goworkers_py.features.limits.limit import Slot
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.policy.poison import RecoveryDecision

HALF = "\ud800"  # half of a surrogate pair: text that no program can write as UTF-8
LATER = 4_000_000_000.5


class Raising:
    """An effect of a bad release: whatever it is asked, it raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


def done(effect: Any) -> Outcome:
    return Done(effects=(effect,))


def pushing(queue: Any, payload: Any = b"{}", at: Any = None) -> Outcome:
    return done(PushJobs(str(queue), (Process.push(job("child"), "children"), Process.push(payload, queue, at))))


def cannot_be_encoded() -> dict[str, Outcome]:
    slot = Slot(HALF)
    wrong: Any = object()
    return {
        "a push to half a character": pushing(HALF),
        "a push to no queue": pushing(None),
        "a push of no payload": pushing("q2", wrong),
        "a push at no time": pushing("q2", at=wrong),
        "half a character in the name of a limit": done(LeaveSlot("j", slot)),
        "half a character in a line": Park(HALF),
        "half a character in a jid": done(NoteState(TrackedJob(HALF, ""), "succeeded", "", 60)),
        "half a character in a value's name": done(StoreValue(HALF, "result", b"1", 60)),
        "a retry of no payload": Retry(LATER, wrong),
        "a retry at no time": Retry(wrong, job("again")),
        "a job rescheduled without a time": Reschedule(wrong, job("again")),
        "a dead job without a payload": Dead(wrong),
        "a requeue of no payload": Requeue(wrong),
        "an effect that is none": done(wrong),
        "an effect that raises": done(Raising()),
    }


CANNOT_BE_ENCODED = sorted(cannot_be_encoded())

# For a queue that takes no jobs: outcomes that put a job there.
Into = Callable[[str], Outcome]
INTO: dict[str, Into] = {
    "a push": lambda queue: done(PushJobs("j", (Process.push(job("child"), "children"), Process.push(job(9), queue)))),
    "an echo": lambda queue: done(echo_pushed("j", queue, job(9))),
    "a push of a failed job": lambda queue: Discard(
        "why", effects=(PushJobs("j", (Process.push(job(9), queue), Process.push(job("child"), "children"))),)
    ),
}  # fmt: skip


@pytest.fixture
def refusals_are_believed_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "REFUSED_FOR_S", 1.0)


@pytest.mark.usefixtures("refusals_are_believed_sooner")
@pytest.mark.parametrize("into", INTO)
def test_a_queue_that_takes_no_jobs_holds_up_the_delivery_alone_that_pushes_there(me: Process, into: str) -> None:
    pushes = "push" in into
    for queue in ("others", "children"):  # a queue that is just declared may refuse messages for a while
        me.publish(job("first"), queue=queue)
        assert me.settle((me.consume(1, queue)[0], DONE)) == [True]
    me.publish(*[job(number) for number in range(5)])
    first, second, bad, fourth, last = me.consume(5)
    with obstructed(me.config.store or me.config.broker, "closed") as lift:
        if lift is None:
            pytest.skip("no queue is closed there")
        outcome = INTO[into]("closed")
        batch = me.batch((first, DONE), (second, pushing("others")), (bad, outcome), (fourth, Discard()), (last, DONE))
        results = list(me.broker.transport.settle(batch))
        if "not in a directory" in str(results[2]):
            pytest.skip("no echoes there")
        assert [*results[:2], *results[3:]] == [True] * 4, results
        assert isinstance(results[2], str)
        assert list(me.broker.transport.settle(batch)) == results, "the same batch again"
        assert [type(told) for told in me.settle((bad, outcome))] == [str], "the obstacle is still there"
        lift()
    assert eventually(lambda: me.settle((bad, outcome)) == [True]), "its queue may be declared again just now"
    assert me.settle((bad, DONE)) == [False]
    for queue, count in (("closed", 1), ("others", 1), ("children", 1 + pushes)):
        assert len(me.consume(count, queue)) == count
    asks = [(queue, 1) for queue in ("closed", "others", "children", "q")]
    assert me.broker.transport.consume(me.identity, asks, 3, 0.2) == []


def settled_as_by_the_settler(me: Process, finished: Sequence[Finished]) -> list[Settled]:
    """In halves where a broker raises for an outcome that it cannot write: before it has done anything of the batch."""
    batch = me.batch(*finished)
    try:
        results = list(me.broker.transport.settle(batch))
        assert list(me.broker.transport.settle(batch)) == results, "the same batch again"
        return results
    except (BrokerUnavailable, AssertionError):
        raise
    except Exception as error:
        if len(finished) == 1:
            return [f"{type(error).__name__}: {error}"]
    middle = len(finished) // 2
    return [told for half in (finished[:middle], finished[middle:]) for told in settled_as_by_the_settler(me, half)]


@pytest.mark.usefixtures("refusals_are_believed_sooner")
def test_the_error_of_several_pushes_says_which_were_pushed(me: Process) -> None:
    with obstructed(me.config.broker, "closed") as lift:
        if lift is None:
            pytest.skip("no queue is closed there")
        pushes = [me.push(job(0), "others"), me.push(job(1), "closed"), me.push(job(2), "others")]
        with pytest.raises(BrokerError) as raised:
            me.broker.transport.publish(pushes)
        pushed = sorted(pushes[place].payload for place in raised.value.places)
        assert sorted(payloads(me.consume(len(pushed), "others"))) == pushed
        assert payloads(me.broker.transport.consume(me.identity, [("others", 3)], 3, 0.2)) == []
        lift()


@pytest.mark.parametrize("how", CANNOT_BE_ENCODED)
def test_an_outcome_that_cannot_be_encoded_is_that_of_its_delivery_alone(me: Process, how: str) -> None:
    me.publish(*[job(number) for number in range(5)])
    first, second, bad, fourth, last = me.consume(5)
    if me.config.broker.startswith("memory:") and how == "a requeue of no payload":
        pytest.skip("any object is kept there")
    outcome = cannot_be_encoded()[how]
    finished = [(first, DONE), (second, pushing("others")), (bad, outcome), (fourth, Discard()), (last, DONE)]
    results = settled_as_by_the_settler(me, finished)
    assert [*results[:2], *results[3:]] == [True] * 4, results
    # An effect that may fail is left out. Otherwise the delivery stays in progress, with nothing of its outcome done.
    assert results[2] is True or isinstance(results[2], str)
    assert me.settle((bad, Done())) == [results[2] is not True]
    assert payloads(me.consume(1, "others")) == [b"{}"]
    children = 1 + (results[2] is True and "push" in how)
    assert payloads(me.consume(children, "children")) == [job("child")] * children
    assert me.broker.transport.consume(me.identity, [("children", 1), ("others", 1), ("q", 1)], 3, 0.2) == []


def test_jobs_that_cannot_be_recovered_hold_up_no_job_behind_them(
    start: Processes, recoverable: Recoverable, me: Process, admin: Admin
) -> None:
    """More of them than are recovered in one step."""
    dead = start()
    dead.publish(*jobs(150))
    dead.consume(150)
    start.expire(dead)

    def judge(found: FoundJob) -> RecoveryDecision:
        return RecoveryDecision(found.payload, queue="closed" if found.payload in jobs(120) else "q")

    with obstructed(me.config.broker, "closed") as lift:
        if lift is None:
            pytest.skip("no queue is closed there")
        moved = list(recoverable.recover(me.identity, judge, ""))
        assert sorted(one.payload for one in moved) == jobs(150)[120:]
        assert sorted(waiting(admin)) == jobs(150)[120:]
        lift()
    assert len(list(recoverable.recover(me.identity, judge, ""))) == 120
    assert sorted(waiting(admin, "closed")) == jobs(120)
    assert list(admin.in_progress()) == []
