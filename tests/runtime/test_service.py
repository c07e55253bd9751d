"""The contract of every thread: start, stop, join, and what an exception comes to."""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from other_machine import other_machine
from waiting import eventually

from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable
from goworkers_py.runtime import service
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService, Service


class Idle(Service):
    """Works until it is stopped, unless it is told otherwise."""

    def __init__(self, work: Callable[[], object] = lambda: None, stubborn: bool = False) -> None:
        super().__init__("idle:q")
        self.work = work
        self.stubborn = stubborn
        self.runs = self.wakes = 0
        self.released = threading.Event()

    def run(self) -> None:
        self.runs += 1
        self.work()
        (self.released if self.stubborn else self.stopping).wait(30)

    def wake(self) -> None:
        self.wakes += 1


@pytest.fixture
def idle() -> Iterator[Idle]:
    idle = Idle()
    yield idle
    idle.released.set()
    idle.stop()
    assert idle.join(Deadline(30))


def test_a_thread_bears_its_name_and_does_not_keep_the_process_alive(idle: Idle) -> None:
    assert not idle.alive
    idle.start()
    assert idle.alive
    [thread] = [thread for thread in threading.enumerate() if thread.name == "idle:q"]
    assert thread.daemon


def test_a_thread_that_has_yet_to_begin_is_not_taken_for_a_dead_one(
    idle: Idle, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The watchdog is at work already while the others are started."""
    revived = []

    class WatchedAtItsStart(threading.Thread):
        def start(self) -> None:
            revived.append(idle.revive())
            super().start()

    monkeypatch.setattr(service, "machine", other_machine(Thread=WatchedAtItsStart))
    idle.start()
    assert revived == [False]
    assert eventually(lambda: idle.runs) == 1
    assert not caplog.records


def test_a_thread_that_the_machine_has_no_room_for_is_started_when_it_has(
    idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            idle.start()
    assert idle.revive()
    assert eventually(lambda: idle.runs) == 1


def test_a_thread_ends_when_it_is_stopped(idle: Idle) -> None:
    idle.start()
    idle.stop()
    assert idle.join(Deadline(30))
    assert not idle.alive


def test_a_stop_before_the_start_is_not_forgotten(idle: Idle) -> None:
    idle.stop()
    idle.start()
    assert idle.join(Deadline(30))


def test_a_stop_may_come_twice_and_from_any_thread(idle: Idle) -> None:
    idle.start()
    stoppers = [threading.Thread(target=idle.stop) for _ in range(5)]
    for thread in stoppers:
        thread.start()
    for thread in stoppers:
        thread.join()
    assert idle.join(Deadline(30))
    idle.stop()


def test_what_never_began_has_ended(idle: Idle) -> None:
    assert idle.join(Deadline(0))


def test_a_join_gives_up_at_its_deadline(idle: Idle) -> None:
    idle.stubborn = True
    idle.start()
    idle.stop()
    begin = time.monotonic()
    assert not idle.join(Deadline(0.1))
    assert time.monotonic() - begin >= 0.1
    assert idle.alive


def test_a_join_wakes_again_what_was_about_to_wait_when_it_was_stopped() -> None:
    class Deaf(Idle):
        def wake(self) -> None:
            super().wake()
            if self.wakes > 2:
                self.released.set()

    deaf = Deaf(stubborn=True)
    deaf.start()
    deaf.stop()
    assert deaf.wakes == 1
    assert deaf.join(Deadline(20))
    assert deaf.wakes > 2


def test_a_join_without_a_stop_wakes_nobody(idle: Idle) -> None:
    idle.start()
    assert not idle.join(Deadline(0.1))
    assert idle.wakes == 0


def test_a_role_without_work_is_a_fault_of_ours() -> None:
    with pytest.raises(NotImplementedError):
        Service("nothing").run()
    with pytest.raises(NotImplementedError):
        BrokerService("nothing", Outage("Redis")).run_once()


@pytest.mark.parametrize("error", [ValueError("a fault"), SystemExit(1), KeyboardInterrupt()])
def test_a_thread_that_fails_says_so_and_begins_anew(
    idle: Idle, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def fail_twice() -> None:
        if idle.runs <= 2:
            raise error

    idle.pause_after_fault_s, idle.work = 0.01, fail_twice
    idle.start()
    assert eventually(lambda: idle.runs == 3)
    assert idle.alive
    assert [record.getMessage() for record in caplog.records] == ["thread idle:q failed; starting it again"] * 2
    assert {record.levelno for record in caplog.records} == {logging.CRITICAL}
    assert caplog.records[0].exc_info[1] is error


def test_an_exception_thrown_into_a_thread_does_not_cost_the_role(idle: Idle) -> None:
    class Interruption(BaseException):
        pass

    def turn() -> None:
        while idle.runs == 1 and not idle.stopping.is_set():
            time.sleep(0.001)  # no wait of an Event: the exception could leave its lock locked

    idle.pause_after_fault_s, idle.work = 0.01, turn
    idle.start()
    assert eventually(lambda: idle.runs == 1)
    [thread] = [thread for thread in threading.enumerate() if thread.name == "idle:q"]
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interruption))
    assert eventually(lambda: idle.runs == 2)
    assert idle.alive


def test_after_a_fault_during_a_stop_a_thread_runs_only_once_more(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError("a fault")

    # The pause after the first fault lasts until the stop comes.
    monkeypatch.setattr(service, "machine", other_machine(sleep=lambda seconds: idle.stopping.wait(30)))
    idle.work = fail
    idle.start()
    assert eventually(lambda: idle.runs == 1)
    idle.stop()
    assert idle.join(Deadline(30))
    assert idle.runs == 2


# --- loops over the server


class Loop(BrokerService):
    """Does what it is told, step by step: an error is raised, a number is the pause asked for."""

    def __init__(self, *steps: BrokerError | float, outage: Outage | None = None) -> None:
        super().__init__("loop", outage or Outage("Redis"))
        self.steps = list(steps)
        self.done: list[object] = []

    def run_once(self) -> float:
        if not self.steps:
            self.stop()
            return 0
        step = self.steps.pop(0)
        if isinstance(step, BrokerError):
            raise step
        return step

    def wait_between(self, seconds: float) -> None:
        self.done.append(seconds)

    def after_failure(self) -> None:
        self.done.append("checked")


def test_a_loop_pauses_as_long_as_each_step_asks_for() -> None:
    loop = Loop(0.0, 5.0, 1.5)
    loop.run()
    assert loop.done == [0.0, 5.0, 1.5, 0]


@pytest.mark.parametrize("error", [BrokerUnavailable("gone"), BrokerRefused("no")])
def test_a_loop_outlives_an_outage_backs_off_and_checks_what_it_left(
    caplog: pytest.LogCaptureFixture, error: BrokerError
) -> None:
    loop = Loop(error, error, 7.0)
    loop.run()
    checked, pause, checked_again, longer_pause, *rest = loop.done
    assert (checked, checked_again, rest) == ("checked", "checked", [7.0, 0])
    assert 0 < pause < longer_pause * 2 < 1
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_fault_that_is_no_outage_is_for_the_thread_to_report() -> None:
    class Faulty(Loop):
        def run_once(self) -> float:
            raise KeyError("ours")

    with pytest.raises(KeyError):
        Faulty().run()


def test_a_loop_that_stops_in_an_outage_does_not_prolong_it() -> None:
    class Stopped(Loop):
        def after_failure(self) -> None:
            self.stop()

    outage = Outage("Redis")
    Stopped(BrokerUnavailable("gone"), outage=outage).run()
    assert not outage.lasts


def test_a_stop_ends_the_pause_of_a_loop() -> None:
    class Sleepy(BrokerService):
        def run_once(self) -> float:
            if not steps:
                began.set()
            return steps.pop() if steps else 600

    steps = [0.0, 0.0, 0.01]
    began = threading.Event()
    loop = Sleepy("sleepy", Outage("Redis"))
    loop.start()
    assert began.wait(30)
    loop.stop()
    assert loop.join(Deadline(30))


def test_a_loop_does_no_further_step_once_it_is_stopped() -> None:
    loop = Loop(1.0)
    loop.stop()
    loop.run()
    assert loop.done == []
