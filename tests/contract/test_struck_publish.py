"""A job publishes, and the watchdog throws an exception into its thread during the publish: nothing is broken."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter

import pytest
from harness import SCHEDULED, Process, all_jobs, job, payloads

from goworkers_py.brokers.contracts.admin import Admin, Place
from goworkers_py.core.job_state import JobState
from goworkers_py.core.strikes import target_of

STRUCK_FOR_S = 0.7
ENOUGH = 200  # strikes
# Jobs of each publish. With so many, the other thread gets its turn during a publish also in memory.
PUSHES = 60


PLACES = [Place(JobState.WAITING, "a"), Place(JobState.WAITING, "b"), SCHEDULED]


class Struck(Exception):
    pass


class Publisher:
    """Publishes one batch each round, to three places. An exception is thrown into rounds as the watchdog does."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._may_be_struck = False
        self._end = False
        self.struck = 0
        self.published: set[int] = set()
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        for number in itertools.count():
            if self._end or self.struck >= ENOUGH:
                return
            try:
                self._publish(number)
            except Struck:
                self.struck += 1
            except Exception as error:
                self.error = error
                return

    def _publish(self, number: int) -> None:
        push, names = self._process.push, [f"{number}/{part}" for part in range(PUSHES)]
        pushes = [push(job(name), "a") for name in names[::3]] + [push(job(name), "b") for name in names[1::3]]
        pushes += [push(job(name), at=3e9 + number) for name in names[2::3]]
        self._may_be_struck = True
        self._process.broker.transport.publish(pushes)
        self.published.add(number)
        self._may_be_struck = False
        target_of(threading.get_ident()).meet()

    def strike(self) -> None:
        target = target_of(self.thread.ident or 0)
        with target.held_up():
            if self._may_be_struck:
                self._may_be_struck = False
                target.throw(Struck)

    def end(self) -> None:
        self._end = True
        self.thread.join()


class Competitor(threading.Thread):
    """Publishes too, so that the publisher often waits for a lock of the broker."""

    def __init__(self, process: Process) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._end = False

    def run(self) -> None:
        while not self._end:
            self._process.publish(job("the competitor's"), queue="c")

    def end(self) -> None:
        self._end = True
        self.join()


# An exception that arrives in a callback of the garbage collection is reported and goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("hasty_switches", "untraced", "store")
def test_a_publish_that_is_struck_is_done_whole_or_not_at_all_and_leaves_nothing_locked(
    me: Process, other: Process, admin: Admin
) -> None:
    publisher, competitor, order = Publisher(me), Competitor(me), random.Random(1)
    publisher.thread.start()
    competitor.start()
    end = time.monotonic() + STRUCK_FOR_S
    while publisher.thread.is_alive() and (time.monotonic() < end or not publisher.struck):
        time.sleep(order.choice([0.0, 0.0, 0.0001, 0.001, 0.005, 0.02]))
        publisher.strike()
    publisher.end()
    competitor.end()
    assert publisher.error is None
    other.publish(job("last"), queue="last")
    assert payloads(other.consume(1, "last")) == [job("last")]
    found = Counter(int(one.jid.partition("/")[0]) for one in all_jobs(admin, PLACES))
    assert set(found.values()) <= {PUSHES}
    assert publisher.published <= set(found)
