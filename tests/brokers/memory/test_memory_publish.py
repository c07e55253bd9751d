"""A job publishes; an exception that is thrown into its thread during the publish breaks nothing."""

from __future__ import annotations

import ctypes
import itertools
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.job_state import JobState

STRUCK = 100  # rounds
# Jobs of each round: enough that the other thread gets its turn during a publish.
PUSHES = 60


class Struck(Exception):
    pass


class Publisher:
    """Publishes one batch each round, to three places. An exception is thrown into each round as the watchdog does."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._may_be_struck = False
        self._gate = threading.Lock()  # orders the end of a round and the throw of an exception
        self.struck = 0
        self.published: set[int] = set()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        for number in itertools.count():
            try:
                self._publish(number)
            except Struck:
                self.struck += 1
            if self.struck >= STRUCK:
                return

    def _publish(self, number: int) -> None:
        payload = json.dumps(number).encode()
        pushes = [Push("a", payload), Push("b", payload), Push("c", payload, at=1.0)] * (PUSHES // 3)
        self._may_be_struck = True
        self._state.publish(pushes)
        self.published.add(number)
        with self._gate:
            self._may_be_struck = False
        for _ in range(2):
            pass  # a thrown exception arrives here at the latest

    def strike(self) -> None:
        with self._gate:
            if self._may_be_struck:
                self._may_be_struck = False
                identity = ctypes.c_ulong(self.thread.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(Struck))


@pytest.fixture
def hasty_switches() -> Iterator[None]:
    """Threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# An exception that arrives in a callback of the garbage collection is reported and goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("hasty_switches", "untraced")
def test_a_publish_that_is_struck_is_done_whole_or_not_at_all_and_leaves_the_lock_free() -> None:
    state = State()
    publisher, order = Publisher(state), random.Random(1)
    publisher.thread.start()
    while publisher.thread.is_alive():
        if order.random() < 0.1:
            with state.lock:  # the publisher waits for it, or is about to
                time.sleep(0.001)
                publisher.strike()
        publisher.strike()
    assert not state.lock.locked()
    with state.lock:
        found = Counter(int(payload) for jobs in state.queues.values() for payload in jobs.values())
        found.update(int(job.payload) for job in state.timed[JobState.SCHEDULED])
    assert set(found.values()) == {PUSHES}
    assert publisher.published <= set(found)
