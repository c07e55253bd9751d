"""A child as its parent, see `supervisor`, knows it."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field

from goworkers_py.core.errors import WorkersError
from goworkers_py.observe.health_report import STALE_AFTER_S, HealthReport, merged

# Until the first report: imports, of large models too.
LONGEST_START_S = 600.0


@dataclass(eq=False)
class ChildProcess:
    process: subprocess.Popen[bytes]
    line: socket.socket
    born: float = field(default_factory=time.monotonic)
    ready: bool = False
    retired: bool = False
    given_up: bool = False
    ended_well: bool = False  # what is left is the end of its interpreter
    alike: bool = False  # its figures can be added to ours
    heard: bytes = b""  # the beginning of a line
    report: HealthReport | None = None
    error: WorkersError | None = None  # what it could not begin or go on for
    reported_at: float | None = None  # monotonic

    def __str__(self) -> str:
        return f"process {self.process.pid}"

    def say(self, word: bytes) -> None:
        with suppress(OSError):  # it is just ending
            self.line.send(word + b"\n")

    def hear(self) -> list[bytes]:
        """The lines that have come; raises EOFError when none will any more."""
        try:
            heard = self.line.recv(65_536)
        except OSError:
            heard = b""
        if not heard:
            raise EOFError
        *lines, self.heard = (self.heard + heard).split(b"\n")
        return lines

    def says(self) -> HealthReport:
        """Its last report, or that there is none. Only who was ready counts as a process that works."""
        report = self.report or merged("", [])
        stale = "" if self.retired else self.silence() or report["stale"]
        return {
            **report,
            "processes": int(self.ready),
            "stale": f"{self}: {stale}" if stale else "",
            "cut_off": "" if self.retired else report["cut_off"],
        }

    def silence(self) -> str:
        """Why it counts as a loop that stands still: one that holds the interpreter's lock, or the whole process."""
        now = time.monotonic()
        if self.reported_at is None:
            silent_s = now - self.born
            return f"has not begun after {silent_s:.0f} s" if silent_s > LONGEST_START_S else ""
        silent_s = now - self.reported_at
        return f"says nothing for {silent_s:.0f} s" if silent_s > STALE_AFTER_S else ""
