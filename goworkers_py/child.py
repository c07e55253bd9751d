"""A child as its parent, see `supervisor`, knows it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from goworkers_py.reports import STALE_AFTER_S, Report


@dataclass(eq=False)
class Child:
    process: subprocess.Popen[bytes]
    line: socket.socket
    born: float = field(default_factory=time.monotonic)
    ready: bool = False
    retired: bool = False
    alike: bool = False  # its figures can be added to ours
    heard: bytes = b""  # the beginning of a line
    report: Report | None = None
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

    def says(self) -> Iterator[Report]:
        """Its last report. Silence is a loop that stands still: with the interpreter's lock, or the whole process."""
        if self.report is None:
            return
        if self.retired:
            yield {**self.report, "stale": "", "cut_off": ""}
            return
        stale = self.report["stale"]
        silent_s = 0.0 if self.reported_at is None else time.monotonic() - self.reported_at
        if silent_s > STALE_AFTER_S:
            stale = f"says nothing for {silent_s:.0f} s"
        yield {**self.report, "stale": f"{self}: {stale}" if stale else ""}
