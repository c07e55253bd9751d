"""What the system tells of processes, this one and others on the same machine: /proc, where there is one."""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_PROC = Path("/proc")


def origin() -> dict[str, Any]:
    """Where this process runs, told so that another one on the same machine can see that it has ended."""
    pid = os.getpid()
    return {"machine": _machine(), "pid": pid, "started": _start_ticks(pid)}


def certainly_dead(told: Mapping[str, Any]) -> bool:
    """True when the process of that origin ran here and runs no more; False also when that cannot be known."""
    machine, pid, started = told.get("machine"), told.get("pid"), told.get("started")
    if not machine or machine != _machine() or not isinstance(pid, int) or not isinstance(started, int):
        return False
    # A pid may have been given to another process since, so its start time is compared too.
    now = _start_ticks(pid)
    return now != started and (now is not None or not _hidden(pid))


def stopped(told: Mapping[str, Any]) -> bool:
    """True when the process of that origin is here and stopped, by SIGSTOP or a debugger."""
    pid = told.get("pid")
    if certainly_dead(told) or not isinstance(pid, int) or told.get("machine") != _machine():
        return False
    stat = _stat(pid)
    return stat is not None and stat[0] in "Tt"


def _hidden(pid: int) -> bool:
    """/proc may show us only processes of our own user (hidepid, systemd's ProtectProc)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it is somebody else's
    except (ProcessLookupError, OverflowError):
        return False
    return True


@cache
def _machine() -> str:
    """This boot of this machine in this pid namespace; empty where the system does not say."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""
    return f"{socket.gethostname()} {boot} {namespace}"


def _start_ticks(pid: int) -> int | None:
    """When the process began, in clock ticks since boot; -1 when it has ended, None when none is to be seen."""
    stat = _stat(pid)
    if stat is None:
        return None
    return -1 if stat[0] in "ZX" else int(stat[19])


def _stat(pid: int) -> list[str] | None:
    """The process's fields in /proc/PID/stat, from its state on; None when this process sees no such file."""
    told = name_and_stat(pid)
    return None if told is None else told[1]


def name_and_stat(pid: int) -> tuple[str, list[str]] | None:
    """The process's name, and as `_stat`."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    head, _, tail = stat.rpartition(")")  # the name stands in parentheses, and may hold blanks and parentheses
    return head.partition(" (")[2], tail.split()


def resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no Linux: the most that it ever was, in bytes on macOS
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
