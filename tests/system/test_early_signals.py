"""Signals that come before a process handles them. With real daemons: integration/test_signals.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from goworkers_py.core.command import Command
from goworkers_py.system import early_signals
from goworkers_py.system.inbox import Inbox
from goworkers_py.system.signals import handled_by, signals_as_bytes

QUIET, REPLACE = signal.SIGUSR1, signal.SIGUSR2


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    """Under nohup, HUP is ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in early_signals.NOTED}
    yield
    for number, handler in before.items():
        assert signal.signal(number, handler) == signal.SIG_DFL


@pytest.mark.parametrize(
    ("program", "words", "begins"),
    [
        ("/usr/local/bin/pyworkers", "run -q default", True),
        ("pyworkers", "restart", True),
        ("pyworkers", "stats", False),
        ("pyworkers", "", False),
        ("/srv/app/server.py", "run", False),
        ("-m", "run", True),
    ],
)
def test_only_a_command_that_works_notes_signals(
    monkeypatch: pytest.MonkeyPatch, program: str, words: str, begins: bool
) -> None:
    monkeypatch.setattr(sys, "argv", [program, *words.split()])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "goworkers_py.cli", *words.split()])
    assert early_signals.is_working_command() == begins


def test_another_module_of_that_command_notes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["-m", "run"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "shop.jobs", "run"])
    assert not early_signals.is_working_command()


def test_a_process_that_a_job_has_spawned_notes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/srv/venv/bin/pyworkers", "run"])
    words = ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()", "--multiprocessing-fork"]
    monkeypatch.setattr(sys, "orig_argv", words)
    assert not early_signals.is_working_command()


def test_signals_are_noted_before_anything_else_is_imported() -> None:
    program = """
import signal, sys
sys.argv = ["/usr/bin/pyworkers", "run"]

class Look:
    def find_spec(self, name, *others):
        ready = signal.getsignal(signal.SIGUSR2) is not signal.SIG_DFL
        if name.startswith("goworkers_py.") and not name.startswith("goworkers_py.system") and not ready:
            sys.exit(f"{name} is imported first")

sys.meta_path.insert(0, Look())
import goworkers_py
signal.raise_signal(signal.SIGUSR2)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_what_was_noted_is_obeyed_in_order_and_a_program_gets_its_actions_back() -> None:
    inbox = Inbox()
    with early_signals.noted():
        for number in (REPLACE, QUIET, signal.SIGTTIN):
            signal.raise_signal(number)
        with handled_by(inbox):
            commands = [order.command for _ in range(3) if (order := inbox.take(1)) is not None]
    assert commands == [Command.REPLACE, Command.QUIET, Command.DUMP]


def test_the_loop_of_a_parent_gets_them_as_bytes() -> None:
    with early_signals.noted():
        signal.raise_signal(REPLACE)
        with signals_as_bytes([QUIET, REPLACE]) as happened:
            assert happened.recv(100) == bytes([REPLACE])
            os.kill(os.getpid(), QUIET)
            assert happened.recv(100) == bytes([QUIET])


def test_a_child_that_is_forked_meanwhile_has_the_default_actions() -> None:
    with early_signals.noted():
        signal.raise_signal(REPLACE)
        child = os.fork()
        if child == 0:
            early_signals._forget_in_fork()  # as os.register_at_fork does in a command
            left = [number for number in early_signals.NOTED if signal.getsignal(number) != signal.SIG_DFL]
            os._exit(len(left) + len(early_signals._came))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with handled_by(Inbox()):
            pass  # takes what was noted here


def test_a_program_that_starts_blocked_gets_its_signals_later() -> None:
    program = """
import signal, sys, time
from goworkers_py.system import early_signals
assert signal.SIGUSR2 in signal.pthread_sigmask(signal.SIG_BLOCK, [])
signal.raise_signal(signal.SIGUSR2)
early_signals.begin()
assert signal.SIGUSR2 not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
assert early_signals._came == [signal.SIGUSR2]
"""
    with early_signals.blocked():
        child = subprocess.Popen([sys.executable, "-c", program])
    assert REPLACE not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert child.wait(30) == 0


def test_a_signal_without_a_handler_has_its_default_action_after_all() -> None:
    """HUP without a log file ends a process whose terminal is closed."""
    program = """
import signal
from goworkers_py.system import early_signals
from goworkers_py.system.inbox import Inbox
from goworkers_py.system.signals import handled_by
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as nohup leaves it, it would stay ignored
early_signals.begin()
signal.raise_signal(signal.SIGHUP)
print("noted", flush=True)
with handled_by(Inbox()):
    print("handled")
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30, check=False)
    assert (child.returncode, child.stdout) == (-signal.SIGHUP, b"noted\n")
