"""Jobs that wait for a time come when it is due, by the store or by the service itself; and a batch is asked again.

Nothing here looks at lists of jobs: these tests also run against a broker that has none.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from harness import Process, can, job, payloads
from waiting import eventually

from goworkers_py.brokers.broker import Capability
from goworkers_py.core.effect import PushJobs
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import REQUEUE, Dead, Done, Outcome, Reschedule, Retry

WAIT_S = 1.0
EARLY_S = 0.2  # a service's clock may be a little ahead of ours


def took_when_due(process: Process, queue: str = "q") -> tuple[list[bytes], float]:
    """The next jobs of the queue, and when they came."""
    taken: list[bytes] = []

    def look() -> bool:
        if Capability.STORE in process.broker.capabilities:
            for state in (JobState.SCHEDULED, JobState.RETRY):
                list(process.broker.store.promote(state, lambda payload, now: (queue, payload), 100))
        taken.extend(payloads(process.broker.transport.consume(process.identity, [(queue, 9)], 9, 0.05)))
        return bool(taken)

    assert eventually(look)
    return taken, time.time()


def test_a_push_for_later_comes_when_it_is_due(me: Process) -> None:
    can(me.broker, Capability.DELAYS)
    me.publish(job("overdue"), at=1.0)  # first: a late push of the other one goes into the queue at once
    due = time.time() + WAIT_S
    me.publish(job("later"), at=due)
    came: dict[bytes, float] = {}
    while len(came) < 2:  # both may come at once, on a busy machine
        taken, came_at = took_when_due(me)
        came |= dict.fromkeys(taken, came_at)
    assert came.keys() == {job("overdue"), job("later")}
    assert came[job("overdue")] <= came[job("later")]
    assert came[job("later")] > due - EARLY_S


@pytest.mark.parametrize("make", [Retry, Reschedule])
def test_a_job_that_is_tried_again_comes_when_it_is_due_with_its_new_payload(
    me: Process, make: Callable[[float, bytes], Outcome]
) -> None:
    can(me.broker, Capability.DELAYS)
    me.publish(job(1))
    [delivery] = me.consume(1)
    due = time.time() + WAIT_S
    assert me.settle((delivery, make(due, job("again")))) == [True]
    taken, came_at = took_when_due(me)
    assert taken == [job("again")]
    assert came_at > due - EARLY_S


def test_a_batch_that_is_asked_again_is_answered_alike_and_pushes_nothing_twice(me: Process) -> None:
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    children = PushJobs("1", (me.push(job("child"), "children"),))
    batch = me.batch((one, Done(effects=(children,))), (two, REQUEUE), (three, Dead(job("dead"))))
    assert [list(me.broker.transport.settle(batch)) for _ in range(3)] == [[True] * 3] * 3
    assert payloads(me.consume(1, "children")) == [job("child")]
    assert payloads(me.consume(1)) == [job(2)]
    for queue in ("children", "q"):
        assert me.broker.transport.consume(me.identity, [(queue, 9)], 9, 0.1) == []


def test_a_delivery_that_was_settled_is_not_settled_again(me: Process) -> None:
    me.publish(job(1))
    [delivery] = me.consume(1)
    assert me.settle((delivery, Done())) == [True]
    assert me.settle((delivery, Done(effects=(PushJobs("1", (me.push(job("late")),)),)))) == [False]
