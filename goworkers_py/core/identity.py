"""Who this process is to the rest of the fleet, and whether another process can be known to be dead.

An identity is `host:pid:nonce`, never shared and never used again. In-progress lists are called after it, and a lease
in Redis says that its owner lives.
"""

from __future__ import annotations

import math
import os
import re
import resource
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from goworkers_py.core.clock import awake_and_asleep

LOOK_EVERY_S = 0.02
_PROC = Path("/proc")


def new_identity() -> str:
    hostname = os.environ.get("DYNO") or socket.gethostname()
    return f"{hostname}:{os.getpid()}:{secrets.token_hex(6)}"


def is_identity(name: str) -> bool:
    """A key is called after an identity, and what a stranger calls one could be the name of another key."""
    return re.fullmatch(r".+:\d+:[0-9a-f]{12}", name) is not None


class Lease:
    """The identity in use, and whether the server was told lately that its process lives.

    Changed by whoever beats, one at a time, in single assignments; read by every thread, without a lock.
    """

    def __init__(self, valid_s: float) -> None:
        self.identity = new_identity()
        self._valid_s = valid_s
        self._fresh_until = -math.inf
        self._told_at = math.inf  # when the server was told last, also after `lapse`

    def confirm(self, asked_at: float) -> None:
        """The server renewed the lease; the question left at `asked_at` on `awake_and_asleep`."""
        self._told_at = asked_at
        self._fresh_until = asked_at + self._valid_s

    @property
    def fresh(self) -> bool:
        """False when the server may have declared this process dead by now."""
        return awake_and_asleep() < self._fresh_until

    @property
    def silent_s(self) -> float:
        """How long ago the server was told; 0 when it never was."""
        return max(0.0, awake_and_asleep() - self._told_at)

    def lapse(self) -> None:
        """The identity was declared dead."""
        self._fresh_until = -math.inf

    def replace(self, identity: str) -> None:
        """The old identity is never used again."""
        self.identity = identity

    def surely_of(self, owner: str) -> bool:
        """Whether `owner` is known to be this process, still. On every job's path, so without the lock.

        First the time, then the name: an identity that is replaced in between is another by the second look. In the
        other order the old name would be found good by the freshness of the new one.
        """
        return awake_and_asleep() < self._fresh_until and self.identity == owner

    def await_word(self, owner: str, timeout_s: float) -> bool:
        """Waits until it is known whether `owner` still is this process; False when it is not, or at the time limit.

        Whoever was frozen for long finds jobs in its hands that may have been given to others meanwhile.
        """
        give_up_at = time.monotonic() + timeout_s
        while not self.fresh and self.identity == owner and time.monotonic() < give_up_at:
            time.sleep(LOOK_EVERY_S)  # not on a lock, which an exception thrown into this thread could leave locked
        return self.surely_of(owner)


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
