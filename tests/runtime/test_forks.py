"""When forks are warned of, and which child processes are found. With real daemons: integration/test_threads.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from apps import own_app
from forks import ended_well, in_child
from waiting import eventually

from goworkers_py.runtime import forks


@contextmanager
def program(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_nobody_is_warned_of_forks_outside_of_jobs(caplog: pytest.LogCaptureFixture) -> None:
    forks._warn()
    assert not caplog.records


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_children_and_theirs_are_seen_until_they_end() -> None:
    others = forks.children()  # the servers of other tests

    def seen() -> dict[str, int]:
        """The pids of ours by their names."""
        return {name: pid for pid, name in forks.children().items() if name in ("sh", "sleep") and pid not in others}

    with program("sh", "-c", "sleep 600 & wait") as shell:
        assert eventually(lambda: len(seen()) == 2), forks.children()
        pids = seen()
        assert pids["sh"] == shell.pid
        os.kill(pids["sleep"], signal.SIGKILL)
        os.waitid(os.P_PID, shell.pid, os.WEXITED | os.WNOWAIT)  # nobody has asked for its exit code yet
        assert not seen()


def test_a_child_makes_its_first_push_while_a_thread_of_its_parent_is_making_another(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with own_app(redis_url) as app:
        assert app.broker  # as in a daemon
        with app._lock:
            child = in_child(lambda: app.enqueue("q", "J", []))
        assert ended_well(child)
    assert redis.llen("queue:q") == 1


# --- signals

MASKED = """
import contextlib, os, signal
from goworkers_py.system import inbox, signals

handled = contextlib.ExitStack()
handled.enter_context(signals.handled_by(inbox.Inbox()))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
child = os.fork()
same = signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
if child == 0:
    os._exit(0 if same else 9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), same)
"""
OWN_HANDLER = """
import contextlib, os, signal
from goworkers_py.system import inbox, signals

handled = contextlib.ExitStack()
handled.enter_context(signals.handled_by(inbox.Inbox()))
own = lambda *_: None
signal.signal(signal.SIGTERM, own)
child = os.fork()
same = signal.getsignal(signal.SIGTERM) is own
if child == 0:
    os._exit(0 if same else 9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), same)
"""


@pytest.mark.parametrize("code", [MASKED, OWN_HANDLER], ids=["mask", "handler"])
def test_a_fork_leaves_what_the_program_says_of_signals_as_it_is(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 True\n"
