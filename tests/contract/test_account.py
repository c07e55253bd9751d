"""Every job is in exactly one place at every instant, whichever verbs are called, in any order, by any processes."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import DEAD, RETRIES, SCHEDULED, Process, Processes, account, as_it_was, can, job

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.admin import Admin, Change, Place
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.job_state import JobState
from goworkers_py.core.outcome import DISCARD, DONE, EXPIRED, REQUEUE, REQUEUE_LAST, Dead, Reschedule, Retry

QUEUES = ("a", "b")
STEPS = 150


class Walk:
    """Calls random verbs of a broker, one after another, each as a random process."""

    _jids = itertools.count(1)

    def __init__(self, start: Processes, seed: int) -> None:
        self._start = start
        self._random = random.Random(seed)
        self._process = start()
        self._process.beat(QUEUES)
        self._held: list[Delivery] = []
        self._verbs: list[Callable[[], object]] = [
            self._publish, self._publish, self._consume, self._consume, self._settle, self._settle, self._settle,
            self._promote, self._recover_another, self._leave, self._die, self._change,
        ]  # fmt: skip
        self.published: set[str] = set()
        self.ended: set[str] = set()

    def step(self) -> str:
        verb = self._random.choice(self._verbs)
        verb()
        return verb.__name__

    def _publish(self) -> None:
        pushes = []
        for _ in range(self._random.randrange(1, 6)):
            jid, queue = f"{id(self)}:{next(self._jids)}", self._random.choice(QUEUES)
            self.published.add(jid)
            pushes.append(self._process.push(job(jid, queue), queue, self._random.choice([None, None, 1.0, 3e9])))
        self._process.broker.transport.publish(pushes)

    def _consume(self) -> None:
        queue = self._random.choice(QUEUES)
        few = self._random.randrange(1, 5)
        self._held += self._process.broker.transport.consume(self._process.identity, [(queue, few)], few, 0)

    def _settle(self) -> None:
        queue = self._random.choice(QUEUES)
        chosen = [one for one in self._held if one.queue == queue and self._random.random() < 0.5]
        finished = [(one, self._outcome(one)) for one in chosen]
        for (delivery, outcome), result in zip(finished, self._process.settle(*finished), strict=True):
            assert result is True
            self._held.remove(delivery)
            if outcome in (DONE, DISCARD, EXPIRED):
                self.ended.add(jid_of(delivery))

    def _outcome(self, delivery: Delivery) -> object:
        at = self._random.choice([1.0, 3e9])
        return self._random.choice(
            [DONE, DISCARD, EXPIRED, REQUEUE, REQUEUE_LAST, Retry(at, delivery.payload),
             Reschedule(at, delivery.payload), Dead(delivery.payload)]
        )  # fmt: skip

    def _promote(self) -> None:
        place = self._random.choice([SCHEDULED, RETRIES])
        steps = self._process.broker.store.promote(
            place.state, lambda payload, now: (self._random.choice([*QUEUES, None]), payload), 3
        )
        list(itertools.islice(steps, self._random.randrange(1, 4)))

    def _recover_another(self) -> None:
        recovering = self._process.broker.recoverable.recover(self._process.identity, as_it_was, proof="")
        list(itertools.islice(recovering, self._random.randrange(1, 9)))

    def _leave(self) -> None:
        self._process.leave(silent=self._random.random() < 0.5)
        self._go_on()

    def _die(self) -> None:
        self._start.expire(self._process)
        self._go_on()

    def _go_on(self) -> None:
        self._held = []
        self._process = self._start()
        self._process.beat(QUEUES)

    def _change(self) -> None:
        place = self._random.choice([SCHEDULED, RETRIES, DEAD])
        goal = Place(JobState.WAITING, self._random.choice(QUEUES))
        if place is not DEAD and self._random.random() < 0.5:
            goal = DEAD
        for _ in self._process.broker.admin.jobs_in(place).change(
            lambda page: [Change(one, goal, one.payload) for one in page if self._random.random() < 0.3]
        ):
            pass


def jid_of(delivery: Delivery) -> str:
    return str(json.loads(delivery.payload)["jid"])


@pytest.fixture
def everything(me: Process, admin: Admin) -> Admin:
    for capability in (Capability.DELAYS, Capability.LEASES):
        can(me.broker, capability)
    return admin


# Two walks meet each verb dozens of times on each broker. The others take seconds.
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_every_job_is_in_one_place_after_each_verb(start: Processes, everything: Admin, seed: int) -> None:
    walk = Walk(start, seed)
    for _ in range(STEPS):
        verb = walk.step()
        places = account(everything)
        assert {*places} == walk.published - walk.ended, verb
        assert set(map(len, places.values())) <= {1}, verb


def test_every_job_is_in_one_place_after_many_have_worked_at_once(start: Processes, everything: Admin) -> None:
    def run(walk: Walk) -> None:
        for _ in range(STEPS):
            walk.step()

    walks = [Walk(start, seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, walks))
    places = account(everything)
    assert {*places} == set.union(*(walk.published for walk in walks)) - set.union(*(walk.ended for walk in walks))
    assert set(map(len, places.values())) == {1}
