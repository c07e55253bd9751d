"""Programs that the benchmark starts. Each leads a process group of its own and is ended with everything in it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

END_S = 10.0
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Failed(Exception):
    """A system that did not do what it was asked for; the run goes on without this figure."""


class Program:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, **streams: Any) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                list(command),
                env={**_own_environment(), **environment},
                cwd=log.parent,
                stdin=streams.get("stdin", subprocess.DEVNULL),
                stdout=streams.get("stdout", output),
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # safe: there is one thread
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raises if it has ended by itself."""
        if self._process.poll() is not None:
            raise Failed(f"ended with {self._process.returncode}: {self.tail()}")

    def await_end(self, within_s: float) -> None:
        """Raises if it does not end well."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"it has not ended after {within_s:.0f} s: {self.tail()}") from None
        if self._process.returncode != 0:
            self.check()

    def tail(self) -> str:
        lines = [line for line in self._log.read_text("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip()[-200:] if lines else "it said nothing"

    def stop(self) -> int:
        """In order, as a service manager does it."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        self.kill()
        return self._process.returncode

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # all of it has ended
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def pids(self) -> list[int]:
        """Of all its processes."""
        return [pid for pid, _ in self._stats()]

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    # --- what it uses

    def cpu_s(self) -> float:
        """Processor time of all its processes, those included that have ended and that a living parent waited for."""
        return sum(_clock_s(pid) + sum(map(int, fields[13:15])) / TICKS_A_SECOND for pid, fields in self._stats())

    def resident_mb(self) -> float:
        return sum(int(fields[21]) for _, fields in self._stats()) * PAGE_BYTES / 1e6

    def _stats(self) -> Iterator[tuple[int, list[str]]]:
        """The fields behind the name in /proc/PID/stat, from the state on, of every process in its session, and of all
        that descend from it: a child may have begun a session of its own."""
        found = dict(_all_stats())
        for pid, fields in found.items():
            if int(fields[3]) == self.pid or self.pid in _line_of(pid, found):
                yield pid, fields


class Client(Program):
    """A program that answers JSON lines."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        super().__init__(command, environment, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            time.sleep(0.2)
            raise Failed(f"its client ended: {self.tail()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        super().kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def _all_stats() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield int(entry.parent.name), entry.read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile


def _clock_s(pid: int) -> float:
    """User and system time of a process, from its clock: /proc/PID/stat has it in hundredths of a second only."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid does it
    except OSError:
        return 0.0  # ended meanwhile; its parent has it now


def _line_of(pid: int, found: Mapping[int, list[str]]) -> Iterator[int]:
    """Its parent, the parent of that, and so on."""
    while pid in found:
        pid = int(found[pid][1])
        yield pid


def _own_environment() -> dict[str, str]:
    """Without what a developer may have set for pyworkers, or against files of compiled code: a program that is
    installed has them."""
    unwanted = ("PYWORKERS_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


def _die_with_parent() -> None:
    """A benchmark that is killed leaves no server behind that holds two million jobs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
