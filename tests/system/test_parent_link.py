"""Children report to their parent: a real parent, and small programs that speak as children of any version do."""

from __future__ import annotations

import os
import signal
import socket
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import eventually

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.core.command import Command
from goworkers_py.observe.health_report import HealthReport, merged, not_ready
from goworkers_py.system.child_process import LONGEST_START_S, ChildProcess
from goworkers_py.system.inbox import Inbox
from goworkers_py.system.parent_link import ParentLink
from goworkers_py.system.supervisor import Supervisor
from goworkers_py.system.systemd import SystemdNotifier

pytestmark = pytest.mark.server


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_first_child_that_a_signal_for_the_group_ends_before_the_parent_is_no_fault(number: str) -> None:
    child = f"import os, signal; signal.signal(signal.{number}, signal.SIG_DFL); os.kill(os.getpid(), signal.{number})"
    assert Supervisor(2, [sys.executable, "-c", child], SystemdNotifier({})).run() == 0


SPEAK = """
import json, os, signal, socket, sys, time
from goworkers_py.observe.health_report import SHAPE, QueueReport, merged
from goworkers_py.system.parent_link import LINE_VARIABLE

line = socket.socket(fileno=int(os.environ[LINE_VARIABLE]))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

def say(word, told=None):
    line.sendall(word.encode() + (json.dumps(told).encode() if told is not None else b"") + b"\\n")

def live():
    # A signal that comes just before a sleep does not end it: so each one is short.
    for _ in range(600):
        time.sleep(0.1)

REPORT = {**merged("working", []), "queues": {"q": QueueReport(busy=1, capacity=2, waiting=0, stuck=0)}, "processes": 1}
"""


def supervised(child: str, meanwhile: Callable[[Supervisor], None], processes: int = 1) -> int:
    """Its exit code. `meanwhile` runs beside it, and then it is asked to stop."""
    supervisor = Supervisor(processes, [sys.executable, "-c", SPEAK + textwrap.dedent(child)], SystemdNotifier({}))
    failed: list[BaseException] = []

    def watch() -> None:
        try:
            meanwhile(supervisor)
        except BaseException as error:
            failed.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: None)  # should the parent have ended before
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        return supervisor.run()
    finally:
        thread.join()
        signal.signal(signal.SIGTERM, before)
        if failed:
            raise failed[0]


@pytest.mark.parametrize(
    "figures",
    [
        # Of a version with more fields and other rows; one that does not even say so; and a fault of our own.
        'say("figures of tomorrow"); say("report ", {"new": 1}); say("stats ", {"processed": 1, "new": 2})',
        'say("report ", {"new": 1}); say("stats ", {"processed": 1, "new": 2})',
        'say("figures " + SHAPE); say("stats ", {"new": 2}); say("report ", {"new": 1}); say("report ", [])',
        'say("figures " + SHAPE); say("report ", {**REPORT, "jobs": {"q": {"A": [1]}}}); line.sendall(b"report {[\\n")',
    ],
)
def test_no_figures_of_a_child_end_the_parent(figures: str, caplog: pytest.LogCaptureFixture) -> None:
    reports: list[HealthReport] = []

    def look(supervisor: Supervisor) -> None:
        assert eventually(lambda: supervisor.state == "working")
        assert eventually(lambda: bool(supervisor._children) and supervisor._children[0].reported_at is not None)
        supervisor._past = {**merged("", []), "jobs": {"q": {"A": [1.0, 2.0]}}}
        reports.append(supervisor.report())

    assert supervised(f'say("ready"); {figures}\nlive()', look) == 0
    assert reports[0]["state"] == "working"


def test_a_parent_whose_children_all_die_is_not_ready(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    def look(supervisor: Supervisor) -> None:
        assert eventually(lambda: not not_ready(supervisor.report()))
        (tmp_path / "die").touch()
        assert eventually(lambda: not_ready(supervisor.report()) == "no process is running")

    path = str(tmp_path / "die")
    child = f"""
        if os.path.exists({path!r}):
            sys.exit(1)
        say("ready")
        while not os.path.exists({path!r}):
            time.sleep(0.01)
        sys.exit(1)
    """
    assert supervised(child, look) in (0, 1)


def test_a_successor_that_hangs_before_it_says_a_word_is_given_up(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    hang = tmp_path / "hang"

    def look(supervisor: Supervisor) -> None:
        assert eventually(lambda: not not_ready(supervisor.report()))
        first = supervisor._children[0]
        hang.touch()
        os.kill(os.getpid(), signal.SIGUSR2)
        assert eventually(lambda: supervisor._successor is not None)
        successor = supervisor._successor
        assert successor is not None
        successor.born -= LONGEST_START_S
        assert eventually(lambda: "the old processes go on" in caplog.text)
        assert "has not begun after" in caplog.text
        assert eventually(lambda: supervisor._successor is None and supervisor._children == [first])

    child = f"""
        if not os.path.exists({str(hang)!r}):
            say("figures " + SHAPE)
            say("report ", REPORT)
            say("ready")
        live()
    """
    assert supervised(child, look) == 0


def test_two_children_that_die_at_once_before_any_was_ready_end_the_parent(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def die(child: ChildProcess) -> None:
        (tmp_path / str(child.process.pid)).touch()

    def look(supervisor: Supervisor) -> None:
        assert eventually(lambda: len(supervisor._children) == 1)
        os.kill(os.getpid(), signal.SIGUSR2)
        assert eventually(lambda: len(supervisor._children) == 2)
        first, second = supervisor._children
        with supervisor._figures._ending:  # the parent waits with the first dead child until the second one is dead too
            die(first)
            assert eventually(lambda: first.process.returncode is not None)
            die(second)
            os.waitid(os.P_PID, second.process.pid, os.WEXITED | os.WNOWAIT)

    child = f"""
        while not os.path.exists({str(tmp_path)!r} + f"/{{os.getpid()}}"):
            time.sleep(0.01)
        sys.exit(3)
    """
    assert supervised(child, look, 3) == 3
    assert caplog.text.count("died with exit code 3") == 2


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_stop_that_strikes_the_first_child_before_the_parent_is_a_clean_stop(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def stops(supervisor: Supervisor) -> None:
        assert eventually(lambda: supervisor._stopping)

    child = f"""
        signal.signal(signal.{name}, signal.SIG_DFL)
        os.kill(os.getpid(), signal.{name})
    """
    assert supervised(child, stops) == 0
    assert "died with" not in caplog.text


class Worn:
    """A daemon that has run all that it may."""

    processed = 1

    def report(self) -> HealthReport:
        raise OSError("no room")


def test_whatever_fails_a_child_listens_to_its_parent_and_notices_its_end() -> None:
    looked = threading.Event()

    def look() -> Stats:
        looked.set()
        raise ValueError("stat:processed is no number")

    ours, theirs = socket.socketpair()
    ours.settimeout(0.02)
    inbox, heard = Inbox(), []
    with ours:
        daemon = SimpleNamespace(processed=0, report=lambda: merged("working", []))
        ParentLink(ours, 0, 0, look).attend(daemon, inbox)  # type: ignore[arg-type]
        with theirs:
            assert looked.wait(10)
            theirs.send(b"\xff\nword of tomorrow\nrecover\nretire\n")
            heard = [inbox.take(10), inbox.take(10)]
        heard.append(inbox.take(10))
        assert eventually(lambda: "parent" not in {thread.name for thread in threading.enumerate()})
    assert heard == [
        (Command.RECOVER, "the parent asks: recover"),
        (Command.RETIRE, "the parent asks: retire"),
        (Command.STOP, "the parent asks: stop"),
    ]


def test_a_child_that_is_worn_out_says_so_whatever_else_it_cannot_say() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(0.02)
    with ours, theirs:
        ParentLink(ours, 1, 0, None).attend(Worn(), Inbox())  # type: ignore[arg-type]
        theirs.settimeout(10)
        heard = b""
        while heard.count(b"worn out\n") < 2:
            heard += theirs.recv(4096)
    assert eventually(lambda: "parent" not in {thread.name for thread in threading.enumerate()})
