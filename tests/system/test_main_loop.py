"""How the main thread obeys commands, and when it ends. With real daemons: integration/test_signals.py."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence

import pytest
from waiting import eventually

from goworkers_py.core.command import Command
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.observe.health_report import HealthReport, merged
from goworkers_py.system.inbox import Inbox
from goworkers_py.system.lifecycle import Lifecycle
from goworkers_py.system.main_loop import _answers, run_until_stopped
from goworkers_py.system.systemd import SystemdNotifier


class Process:
    """A daemon, and all that it was asked for."""

    def __init__(self, fail: BaseException | None = None, clean: bool = True) -> None:
        self.done: list[str] = []
        self._at_start: Sequence[Command] = ()
        self.began, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()
        self._fail, self._clean = fail, clean
        self.workers_alive = 0
        self.gave_up = False
        self.state, self.running = "working", dict[str, Delivery]()
        self.inbox = Inbox()
        self.quiet = self._noting("quiet")
        self.hurry = self._noting("hurry")
        self.lose_patience = self._noting("lose patience")
        self.look_for_the_dead = self._noting("look for the dead")

    def _noting(self, what: str) -> Callable[[], None]:
        return lambda: self.done.append(what)

    def report(self) -> HealthReport:
        return merged("working", [])

    def __str__(self) -> str:
        return "host:1:abc is processing q (1 threads)"

    def start(self, stop_asked: threading.Event) -> bool:
        if self._fail is not None:
            raise self._fail
        self.done.append("start")
        started = not stop_asked.is_set()
        self.ask(*self._at_start)
        return started

    def stop(self, patiently: bool) -> bool:
        self.done.append("stop patiently" if patiently else "stop")
        self.began.set()
        assert self.may_end.wait(30)
        return self._clean

    def ask(self, *commands: Command) -> Process:
        for command in commands:
            self.inbox.obey(command, "the test")
        return self

    def asked(self, *commands: Command) -> Process:
        """Is asked for this as soon as it has started: what comes before that finds nothing to stop."""
        self._at_start = commands
        return self

    def run(self) -> int:
        return run_until_stopped(self, self.inbox, None, SystemdNotifier({}))  # type: ignore[arg-type]


def test_commands_are_obeyed_in_their_order_until_the_process_has_stopped(caplog: pytest.LogCaptureFixture) -> None:
    process = Process().asked(Command.RECOVER, Command.QUIET, Command.DUMP, Command.STOP)
    with caplog.at_level(logging.INFO, "goworkers_py"):
        assert process.run() == 0
    assert process.done == ["start", "look for the dead", "quiet", "stop"]
    asked = [message for message in caplog.messages if message.startswith("the test asks: ")]
    assert asked == [f"the test asks: {word}" for word in ("recover", "quiet", "dump", "stop")]
    assert "thread MainThread" in caplog.text
    assert "ready: host:1:abc is processing q (1 threads); stop it with TERM or Ctrl-C" in caplog.messages
    assert "stopped" in caplog.messages


def test_a_command_that_fails_does_not_end_the_process(caplog: pytest.LogCaptureFixture) -> None:
    process = Process()

    def fail() -> None:
        raise OSError("no room")

    process.look_for_the_dead = fail
    assert process.asked(Command.RECOVER, Command.QUIET, Command.STOP).run() == 0
    assert "quiet" in process.done
    assert "recover failed" in caplog.messages


def test_a_report_that_fails_does_not_end_the_process(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(SystemdNotifier):
        def follow(self, *_: object) -> None:
            raise OSError("no room")

    process = Process().asked(Command.QUIET, Command.STOP)
    assert run_until_stopped(process, process.inbox, None, Failing({})) == 0  # type: ignore[arg-type]
    assert process.done == ["start", "quiet", "stop"]
    assert "the report to systemd failed" in caplog.messages


def test_a_signal_is_a_command_and_its_former_handler_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    process, before = Process(), signal.getsignal(signal.SIGUSR1)

    def send() -> None:
        assert eventually(lambda: "ready: host:1:abc" in caplog.text)  # in the launcher's thread
        for number in (signal.SIGUSR1, signal.SIGTERM):
            os.kill(os.getpid(), number)
            eventually(lambda: f"got {number.name}" in caplog.text)  # noqa: B023

    sender = threading.Thread(target=send)
    with caplog.at_level(logging.INFO, "goworkers_py"):
        sender.start()
        assert process.run() == 0
        sender.join()
    assert process.done == ["start", "quiet", "stop"]
    assert signal.getsignal(signal.SIGUSR1) is before


def test_one_process_alone_cannot_be_replaced_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert Process().asked(Command.REPLACE, Command.STOP).run() == 0
    assert "USR2 ignored: there is one process only; restart it for new code, or set `processes`" in caplog.messages


# --- a stop, asked for more than once


def stopping(process: Process, *more: Command) -> int:
    """Asks for more while the stop runs."""

    def ask() -> None:
        assert process.began.wait(20)
        process.ask(*more, Command.QUIET)  # which tells that the others were obeyed
        assert eventually(lambda: "quiet" in process.done)
        process.may_end.set()

    process.may_end.clear()
    asker = threading.Thread(target=ask)
    asker.start()
    try:
        return process.run()
    finally:
        asker.join()


@pytest.mark.parametrize("first", [Command.STOP, Command.STOP_OR_HURRY])
@pytest.mark.parametrize(
    ("again", "hurries"),
    [
        (Command.STOP, False),  # an impatient second click is no order to leave jobs behind
        (Command.RETIRE, False),
        (Command.STOP_OR_HURRY, True),
        (Command.INTERRUPT, True),
    ],
)
def test_only_some_second_requests_hurry(first: Command, again: Command, hurries: bool) -> None:
    process = Process()
    life = Lifecycle(process, lambda: None, lambda: None, same_request_s=-1.0)  # type: ignore[arg-type]
    answers = _answers(process, life, None)  # type: ignore[arg-type]
    answers[first]()
    answers[again]()
    assert process.done == (["hurry"] if hurries else [])


def test_a_request_that_comes_twice_at_once_is_one_request() -> None:
    process = Process()
    # The time within which it comes twice is half a second, for which a busy machine may stand still.
    life = Lifecycle(process, lambda: None, lambda: None, same_request_s=60.0)  # type: ignore[arg-type]
    answers = _answers(process, life, None)  # type: ignore[arg-type]
    for _ in range(2):
        answers[Command.STOP_OR_HURRY]()
    assert process.done == []


@pytest.mark.parametrize("again", [Command.STOP, Command.STOP_OR_HURRY])
def test_a_retiring_process_has_no_time_limit_until_asked_again(again: Command) -> None:
    process = Process().asked(Command.RETIRE)
    assert stopping(process, again) == 0
    assert process.done == ["start", "stop patiently", "lose patience", "quiet"]


def test_a_stop_that_comes_before_the_start_is_not_forgotten() -> None:
    process = Process()
    start, asked = process.start, threading.Event()

    def slow(stop_asked: threading.Event) -> bool:
        asked.set()
        assert stop_asked.wait(20)
        return start(stop_asked)

    process.start = slow
    asker = threading.Thread(target=lambda: asked.wait(20) and process.ask(Command.STOP))
    asker.start()
    assert process.run() == 0
    asker.join()
    assert process.done == ["start"]


# --- how it ends


def test_the_error_of_a_refused_start_is_raised() -> None:
    with pytest.raises(BrokerRefused, match="the process name is in use"):
        Process(fail=BrokerRefused("the process name is in use")).run()


def test_a_fault_of_ours_is_logged_and_the_exit_code_tells_of_it(caplog: pytest.LogCaptureFixture) -> None:
    assert Process(fail=KeyError("ours")).run() == 1
    assert "the daemon failed" in caplog.messages


def test_a_process_that_left_jobs_behind_or_gave_up_exits_with_1() -> None:
    assert Process(clean=False).asked(Command.STOP).run() == 1
    gave_up = Process().asked(Command.STOP)
    gave_up.gave_up = True
    assert gave_up.run() == 1
