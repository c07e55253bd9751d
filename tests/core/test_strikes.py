"""Exceptions that are thrown into a thread: none leaves a lock taken, and none arrives after the run that it is for."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from goworkers_py.core.strikes import Lock, target_of

# On a busy machine each takes some milliseconds. `make newest` and `make matrix` strike ten times as often.
STRIKES = int(os.environ.get("PYWORKERS_TEST_STRIKES", "1000"))
pytestmark = pytest.mark.usefixtures("untraced")


class Struck(BaseException):
    pass


class Runner(threading.Thread):
    """Runs that take locks, one in the other. Each may be struck once, as a job is by its cancel or time limit."""

    def __init__(self, locks: tuple[Lock, Lock]) -> None:
        super().__init__(daemon=True)
        self.locks = locks
        self.runs = False
        self.struck = self.between = self.steps = 0
        self.enough = False
        self.wrong: list[str] = []

    def run(self) -> None:
        outer, inner = self.locks
        while not self.enough:
            try:
                self._run(outer, inner)
            except Struck:
                self.struck += 1
            try:
                for _ in range(10):
                    self.between += 1
            except Struck:
                self.wrong.append("struck between two runs")

    def _run(self, outer: Lock, inner: Lock) -> None:
        whole = 0
        self.runs = True
        try:
            for _ in range(5):
                try:
                    with outer:
                        whole = 1
                        with inner:
                            whole = 2
                        whole = 3
                    whole = 0
                except Struck:
                    if whole not in (0, 3):
                        self.wrong.append("struck while it holds a lock")
                    raise
                self.steps += 1
        finally:
            self.runs = False
            target_of(threading.get_ident()).meet()

    def strike(self) -> None:
        target = target_of(self.ident or 0)
        with target.held_up():
            if self.runs:
                self.runs = False
                target.throw(Struck)


@pytest.mark.usefixtures("hasty_switches")
@pytest.mark.timeout(300)
def test_strikes_at_any_moment_leave_no_lock_taken_and_hit_their_runs_only() -> None:
    locks = Lock(), Lock(threading.RLock())
    one, other = Runner(locks), Runner(locks)
    one.start()
    other.start()
    chance = random.Random(1)
    while one.struck + other.struck < STRIKES and one.is_alive() and other.is_alive():
        chance.choice((one, other)).strike()
        for _ in range(chance.randrange(50)):
            pass
    one.enough = other.enough = True
    for runner in (one, other):
        runner.join(10)
        assert not runner.is_alive()
        assert not runner.wrong
        assert runner.steps > STRIKES / 10
    for lock in locks:
        assert lock._lock.acquire(timeout=1)


def test_what_is_thrown_while_a_lock_is_held_is_raised_after_it() -> None:
    lock, told = Lock(), list[str]()
    holds, go_on = threading.Event(), threading.Event()

    def run() -> None:
        try:
            with lock:
                holds.set()
                go_on.wait(10)
                for _ in range(100):
                    pass
                told.append("the end of the block")
            told.append("after it")
        except Struck:
            told.append("struck")

    thread = threading.Thread(target=run)
    thread.start()
    holds.wait(10)
    with (target := target_of(thread.ident or 0)).held_up():
        target.throw(Struck)
    go_on.set()
    thread.join(10)
    assert told == ["the end of the block", "struck"]
    with lock:
        pass


def test_a_lock_that_is_not_free_in_time_leaves_its_thread_open() -> None:
    lock = Lock()
    with lock, ThreadPoolExecutor(1) as pool:
        assert pool.submit(lock.acquire, timeout=0.01).result(20) is False
        [thread] = pool._threads
        assert target_of(thread.ident or 0)._shut == 0
    assert lock.acquire(timeout=0.01)
    assert target_of(threading.get_ident())._shut == 1
    lock.release()
    assert target_of(threading.get_ident())._shut == 0


def test_a_child_that_is_forked_while_its_thread_is_held_up_takes_locks() -> None:
    held, forked, children = threading.Event(), threading.Event(), list[int]()

    def fork() -> None:
        held.wait(10)
        child = os.fork()
        if not child:
            with Lock():
                os._exit(7)
        children.append(child)
        forked.set()

    thread = threading.Thread(target=fork)
    thread.start()
    with target_of(thread.ident or 0).held_up():
        held.set()
        forked.wait(10)
    thread.join(10)
    for _ in itertools.repeat(None, 1_000):
        ended, status = os.waitpid(children[0], os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status) == 7
