"""Facts about processes of this machine, from /proc where the system has it; and the CPU that this one uses."""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from goworkers_py.core import machine

_PROC = Path("/proc")
# Over less, a share says little: beats may follow each other closely when the state of the process changes.
SHORTEST_MEASURE_S = 1.0


def origin() -> dict[str, Any]:
    """This process, by `machine`, `pid` and `started`: another process on the machine can see that it has ended.

    `machine` is a text, and empty where the system does not tell it. The values can be stored as JSON.
    """
    pid = os.getpid()
    return {"machine": _machine(), "pid": pid, "started": _start_ticks(pid)}


def certainly_dead(origin: Mapping[str, Any]) -> bool:
    """True if the process of that origin ran on this machine and has ended. False also if nobody can know."""
    machine, pid, started = origin.get("machine"), origin.get("pid"), origin.get("started")
    if not machine or machine != _machine() or not isinstance(pid, int) or not isinstance(started, int):
        return False
    # The system may have given the pid to another process since, so the start time is compared too.
    now = _start_ticks(pid)
    return now != started and (now is not None or not _hidden(pid))


def stopped(origin: Mapping[str, Any]) -> bool:
    """True if the process of that origin is on this machine and stopped, by SIGSTOP or a debugger."""
    pid = origin.get("pid")
    if certainly_dead(origin) or not isinstance(pid, int) or origin.get("machine") != _machine():
        return False
    stat = _stat(pid)
    return stat is not None and stat[0] in "Tt"


def _hidden(pid: int) -> bool:
    """True if the process runs and /proc does not show it: with hidepid or systemd's ProtectProc, /proc shows only
    processes of our own user."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it runs, as another user
    except (ProcessLookupError, OverflowError):
        return False
    return True


def boot_id() -> str:
    """Names the time from this start of the machine to its next one; empty where /proc does not tell it."""
    try:
        return _boot_id()
    except OSError:
        return ""


def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


@cache
def _machine() -> str:
    """Names this boot of this machine and this pid namespace; empty where /proc does not tell them."""
    try:
        boot = _boot_id()
        namespace = str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""
    return f"{socket.gethostname()} {boot} {namespace}"


def _start_ticks(pid: int) -> int | None:
    """Start of the process in clock ticks since boot; -1 if it has ended (a zombie), None if /proc does not show it."""
    stat = _stat(pid)
    if stat is None:
        return None
    return -1 if stat[0] in "ZX" else int(stat[19])


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat, from the state on; None if this process cannot read that file."""
    found = name_and_stat(pid)
    return None if found is None else found[1]


def name_and_stat(pid: int) -> tuple[str, list[str]] | None:
    """The name of the process, and the fields that `_stat` returns; None as there."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    head, _, tail = stat.rpartition(")")  # the name is in parentheses, and may itself hold blanks and parentheses
    return head.partition(" (")[2], tail.split()


def parent_of(pid: int) -> int | None:
    found = _stat(pid)
    return None if found is None else int(found[1])


def resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux: the highest value so far; macOS counts in bytes, others in KiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class CpuMeter:
    """Measures the CPU that all threads of this process use, without its child processes. Used by one thread at a
    time."""

    def __init__(
        self,
        clock: Callable[[], float] = lambda: machine.monotonic(),
        used: Callable[[], float] = lambda: machine.process_time(),
    ) -> None:
        self._clock = clock
        self._used = used
        self._since, self._used_before = clock(), used()
        self._share: float | None = None

    def share(self) -> float | None:
        """Returns the CPU time since the last measure as a share of one core: 1.5 is one and a half. A call ends a
        measure, after SHORTEST_MEASURE_S at the earliest, and returns the last one until then, at first None."""
        now, used = self._clock(), self._used()
        if now - self._since >= SHORTEST_MEASURE_S:
            self._share = (used - self._used_before) / (now - self._since)
            self._since, self._used_before = now, used
        return self._share
