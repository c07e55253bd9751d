"""The processes that jobs make: a warning of forks, and the names of those that are left at the end."""

from __future__ import annotations

import atexit
import functools
import logging
import os
from pathlib import Path

from goworkers_py.identity import name_and_stat
from goworkers_py.message import current_message

log = logging.getLogger(__name__)

# They belong to Python, and end when their parent does.
_HELPERS = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")

_warned = False  # set by the thread of a job; two that warn at the same time do no harm


@functools.cache
def watch() -> None:
    """From now on, for good. Programs that are started by `subprocess` or `spawn` come by none of this."""
    os.register_at_fork(before=_warn)


def _warn() -> None:
    global _warned
    if not _warned and current_message() is not None:
        _warned = True
        log.warning(
            "a job forks, and its process has threads: the child hangs when it needs a lock that another thread had. "
            "Use subprocess, or multiprocessing with spawn (docs/reliability.md, child processes). Said once a process"
        )


def report_at_exit() -> None:
    """To be called before the user's code is imported: handlers run last that were registered first, and those of
    multiprocessing end children."""
    atexit.register(report_left)


def report_left() -> None:
    """At the very end of the process. Nobody is killed: a job may have meant to leave a program behind."""
    if left := children():
        log.warning(
            "child processes outlive this process: %s; if they should not, the jobs must end them", listed(left)
        )


def listed(processes: dict[int, str]) -> str:
    return ", ".join(f"{pid} ({name})" for pid, name in sorted(processes.items()))


def children() -> dict[int, str]:
    """The names of the processes below this one that have not ended, by pid. None where there is no /proc."""
    below: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for pid in (int(folder.name) for folder in Path("/proc").glob("[0-9]*")):
        told = name_and_stat(pid)
        if told is None or told[1][0] == "Z":
            continue  # it has just ended
        names[pid] = told[0]
        below.setdefault(int(told[1][1]), []).append(pid)
    found: dict[int, str] = {}
    generation = below.get(os.getpid(), [])
    while generation:
        found |= {pid: names[pid] for pid in generation if not _is_helper(pid)}
        generation = [child for pid in generation for child in below.get(pid, [])]
    return found


def _is_helper(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(helper in command for helper in _HELPERS)
