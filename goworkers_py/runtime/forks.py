"""Child processes of jobs: warns when a job forks, renews the fork's output streams, names those left at the end."""

from __future__ import annotations

import atexit
import functools
import io
import logging
import os
import sys
from pathlib import Path
from typing import TextIO

from goworkers_py.core.proc import name_and_stat
from goworkers_py.wire.message import current_message

log = logging.getLogger(__name__)

# Helper processes of Python's multiprocessing: they end when their parent does.
_HELPERS = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")

_warned = False  # set by the thread of a job; a second warning by another thread does no harm
_of_parent: list[TextIO] = []  # the parent's streams, kept for ever: Python flushes a stream before it frees it


@functools.cache
def watch() -> None:
    """Installs the hooks below, for good. Programs that are started by `subprocess` or `spawn` do not run them."""
    os.register_at_fork(before=_warn, after_in_child=_renew_output)


def _warn() -> None:
    global _warned
    if not _warned and current_message() is not None:
        _warned = True
        log.warning(
            "a job forks, and its process has threads: the child hangs when it needs a lock that another thread held. "
            "Use subprocess, or multiprocessing with spawn (docs/reliability.md, child processes). Logged once"
        )


def _renew_output() -> None:
    """In the child: replaces each stream. A thread of the parent may have held the stream's lock at the fork, and the
    stream's buffer may hold lines of the parent, which the child would write a second time."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        own = stream is getattr(sys, f"__{name}__")  # not a stream that the user's code has put there
        if own and isinstance(stream, io.TextIOWrapper) and not stream.closed:
            _of_parent.append(stream)
            fresh = _like(stream)
            setattr(sys, name, fresh)
            setattr(sys, f"__{name}__", fresh)


def _like(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    buffering = 0 if isinstance(stream.buffer, io.RawIOBase) else -1  # 0: with PYTHONUNBUFFERED
    return io.TextIOWrapper(
        open(stream.fileno(), "wb", buffering=buffering, closefd=False),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def report_at_exit() -> None:
    """To be called before the user's code is imported. The first registered exit handler runs last: after that of
    multiprocessing, which ends children."""
    atexit.register(report_left)


def report_left() -> None:
    """At the very end of the process. No child is killed: a job may have meant to leave a program behind."""
    if left := children():
        log.warning(
            "child processes outlive this process: %s; if they should not, the jobs must end them", listed(left)
        )


def listed(processes: dict[int, str]) -> str:
    return ", ".join(f"{pid} ({name})" for pid, name in sorted(processes.items()))


def children() -> dict[int, str]:
    """The names, by pid, of the processes below this one that have not ended. Empty where there is no /proc."""
    below: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for pid in (int(folder.name) for folder in Path("/proc").glob("[0-9]*")):
        stat = name_and_stat(pid)
        if stat is None or stat[1][0] == "Z":
            continue  # it has just ended
        names[pid] = stat[0]
        below.setdefault(int(stat[1][1]), []).append(pid)
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
