"""A child process, as its parent knows it, see `supervisor`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from goworkers_py.core.values import dataclass
from goworkers_py.observe.health_report import STALE_AFTER_S, HealthReport, merged
from goworkers_py.system.early_signals import blocked
from goworkers_py.system.parent_link import LINE_VARIABLE

if TYPE_CHECKING:
    from goworkers_py.core.command import Command
    from goworkers_py.core.errors import WorkersError

# From the start to the first report: the child imports the user's code, with large models perhaps.
LONGEST_START_S = 600.0


@dataclass(eq=False)
class ChildProcess:
    process: subprocess.Popen[bytes]
    line: socket.socket
    born: float = field(default_factory=time.monotonic)
    ready: bool = False
    retired: bool = False
    given_up: bool = False
    ended_well: bool = False  # its work is done, and only its interpreter has still to end
    alike: bool = False  # its figures have our shape, so they can be added up
    heard: bytes = b""  # the beginning of a line whose end has not come yet
    report: HealthReport | None = None
    error: WorkersError | None = None  # the child's own words for why it ended
    reported_at: float | None = None  # monotonic

    @classmethod
    def start(cls, command: list[str]) -> ChildProcess:
        """Raises OSError when the machine has no room for a process now, or the program file is just being replaced."""
        ours, theirs = socket.socketpair()
        with theirs, blocked():
            number = theirs.fileno()
            process = subprocess.Popen(command, env={**os.environ, LINE_VARIABLE: str(number)}, pass_fds=(number,))
        ours.setblocking(False)
        return cls(process, ours)

    def __str__(self) -> str:
        return f"process {self.process.pid}"

    def say(self, command: Command) -> None:
        with suppress(OSError):  # the child is just ending
            self.line.send(command.value.encode() + b"\n")

    def hear(self) -> list[bytes]:
        """The lines that have come; raises EOFError when no more will come."""
        try:
            heard = self.line.recv(65_536)
        except OSError:
            heard = b""
        if not heard:
            raise EOFError
        *lines, self.heard = (self.heard + heard).split(b"\n")
        return lines

    def says(self) -> HealthReport:
        """The child's last report, or an empty one. Only a child that was ready counts as a working process."""
        report = self.report or merged("", [])
        stale = "" if self.retired else self.silence() or report["stale"]
        return {
            **report,
            "processes": int(self.ready),
            "stale": f"{self}: {stale}" if stale else "",
            "cut_off": "" if self.retired else report["cut_off"],
        }

    def silence(self) -> str:
        """Why the child counts as standing still, because it sends no reports; empty if it does not. A thread in it may
        hold the interpreter's lock, or the whole process may be stopped."""
        now = time.monotonic()
        if self.reported_at is None:
            silent_s = now - self.born
            return f"has not begun after {silent_s:.0f} s" if silent_s > LONGEST_START_S else ""
        silent_s = now - self.reported_at
        return f"says nothing for {silent_s:.0f} s" if silent_s > STALE_AFTER_S else ""


def ending(code: int) -> str:
    """How a process ended, for people."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-code}"


def own_command() -> list[str]:
    """The command that started this process, with a path that is right in any directory."""
    arguments = sys.orig_argv[1:]
    if arguments and not arguments[0].startswith("-"):
        arguments[0] = str(Path(arguments[0]).absolute())
    return [sys.executable, *arguments]
