"""Writes log lines so that a thread that logs never waits for long, even when nobody reads the lines.

The thread that logs a line writes it at once, so that a crash loses no line. Into a pipe, a terminal or a socket it
writes only as much as there is room for. The rest, and a line for which the disk has no space, is kept, up to MOST_KEPT
bytes, and the stream's `log writer` thread writes the kept lines in order as soon as possible. Further lines are
dropped, and one line in their place says how many. A line of more than PIPE_BUF bytes is always kept first, because a
pipe might take only a part of it, and no other thread's line may come between its parts.

An exception may be thrown into a thread while it logs. A line that can be written at once is written without a lock,
except through a descriptor that may block. Otherwise the thread holds `_lock`, which no thrown exception leaves taken.
"""

from __future__ import annotations

import os
import queue
import select
import socket
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from goworkers_py.core.strikes import Lock

MOST_KEPT = 1 << 20
AT_ONCE = 1 << 16

# When MOST_KEPT bytes are kept, a thread that logs waits for the reader, so that a burst of lines is not cut. It does
# not wait for a reader that has taken nothing for this long.
PATIENCE_S = 1.0
GLANCE_S = 0.005
# How soon a full disk is tried again.
RETRY_S = 1.0
# How long the end of the program waits for the kept lines.
FLUSH_S = 1.0


class Output:
    """Any thread may write. Only the writer's thread takes lines out of `_kept`."""

    def __init__(
        self, descriptor: int, tell_of_dropped: Callable[[int], bytes], patience_s: float = PATIENCE_S
    ) -> None:
        self._tell_of_dropped = tell_of_dropped
        self._patience_s = patience_s
        self._kept = bytearray()  # changed under the lock; read without it
        self._dropped = 0  # changed under the lock: lines dropped since the last kept one
        self._moved_at = 0.0  # monotonic: when `_kept` last shrank, or got its first line
        self._lock = Lock(threading.RLock())  # reentrant: a finalizer may log while its thread holds the lock
        self._woken: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._forked = False
        self.turn_to(descriptor)
        self._has_writer = threading.Lock()  # the writer's thread takes it, and keeps it for good
        _outputs.add(self)

    def turn_to(self, descriptor: int) -> None:
        self._put, self._longest_at_once, self._waits = _way_into(descriptor)
        self._descriptor = descriptor

    def write(self, line: bytes) -> None:
        written = 0
        if len(line) <= self._longest_at_once and not self._kept and not self._dropped:
            try:  # noqa: SIM105  # done for each line: `suppress` would cost more than all the rest
                written = self._put_if_room(line) if self._waits else self._put(line)
            except OSError:
                pass  # no room, no space on the disk, or no reader: the writer's thread tries again
            if written == len(line):
                return
        self._keep(line[written:], begun=written > 0)

    def _put_if_room(self, line: bytes) -> int:
        with self._lock:  # else two threads would both see the same room, and one would wait in `_put`
            if self._kept or not self._has_room(0):
                return 0
            return self._put(line)

    def _keep(self, line: bytes, begun: bool) -> None:
        if self._forked:
            return  # a forked child has no writer's thread
        self._start_writer()
        deadline = self._moved_at + self._patience_s
        while not self._kept_now(line, begun):
            if time.monotonic() >= deadline:
                with self._lock:
                    self._dropped += 1
                return
            time.sleep(GLANCE_S)
        self._woken.put(True)

    def _start_writer(self) -> None:
        """Called only when a line has to be kept: most programs need no writer's thread. If two threads call this at
        once, or an exception is thrown into one here, a second writer may start: that one ends at once."""
        if not self._has_writer.locked():
            with suppress(RuntimeError):  # no more threads, or Python is ending: the next line tries again
                threading.Thread(target=self._write_kept, name="log writer", daemon=True).start()

    def _kept_now(self, line: bytes, begun: bool) -> bool:
        with self._lock:
            # After a dropped line there must be more room, so that there are few gaps.
            room = MOST_KEPT // 2 if self._dropped else MOST_KEPT
            if self._kept and len(self._kept) + len(line) > room and not begun:
                return False
            self._say_dropped()
            if not self._kept:
                self._moved_at = time.monotonic()  # all earlier lines have been written
            self._kept += line
            return True

    def _say_dropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._kept += self._tell_of_dropped(dropped)

    def _write_kept(self) -> None:
        """In the writer's thread."""
        if not self._has_writer.acquire(blocking=False):
            return
        while self._woken.get():
            while self._kept and not self._closed.is_set():
                self._write_some()

    def _write_some(self) -> None:
        some = bytes(self._kept[:AT_ONCE])
        whole_lines = some.rfind(b"\n") + 1
        try:
            written = self._put(some[:whole_lines] or some)
        except BlockingIOError:
            self._has_room(RETRY_S)
            return
        except OSError:
            self._closed.wait(RETRY_S)
            return
        with self._lock:
            del self._kept[:written]
            self._moved_at = time.monotonic()
            if not self._kept:
                self._say_dropped()

    def _has_room(self, within_s: float) -> bool:
        room = select.poll()
        room.register(self._descriptor, select.POLLOUT)
        return bool(room.poll(within_s * 1000))

    def flush(self) -> None:
        deadline = time.monotonic() + FLUSH_S
        while self._kept and not self._forked and time.monotonic() < deadline:
            time.sleep(GLANCE_S)

    def close(self) -> None:
        """Ends the writer's thread, even if lines are still kept."""
        self._closed.set()
        self._woken.put(False)

    def _after_fork(self) -> None:
        """In a forked child: it has none of its parent's threads, and the kept lines are the parent's to write."""
        self._lock = Lock(threading.RLock())
        self._kept, self._dropped = bytearray(), 0
        self._forked, self._longest_at_once, self._waits = True, sys.maxsize, False


def _way_into(descriptor: int) -> tuple[Callable[[bytes], int], int, bool]:
    """Returns the function that writes; the longest line that the logging thread may write itself; and whether a write
    waits for a reader. Changes nothing about `descriptor`: other programs share it."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return len, sys.maxsize, False  # closed: lines go nowhere
    if stat.S_ISREG(mode):
        return partial(os.write, descriptor), sys.maxsize, False
    if stat.S_ISSOCK(mode):
        return _Socket(descriptor).write, sys.maxsize, False
    is_pipe = stat.S_ISFIFO(mode)
    try:
        return _Opened(descriptor).write, select.PIPE_BUF if is_pipe else sys.maxsize, False
    except OSError:
        # Not Linux, or another user opened it. A pipe that has room takes PIPE_BUF bytes without waiting. The writer's
        # thread writes everything else.
        return partial(os.write, descriptor), select.PIPE_BUF if is_pipe else 0, True


class _Socket:
    def __init__(self, descriptor: int) -> None:
        blocks = os.get_blocking(descriptor)
        self._socket = socket.socket(fileno=os.dup(descriptor))
        # If a program has called `socket.setdefaulttimeout`, `socket.socket` makes the shared file non-blocking for all
        # processes that have it: undone here.
        self._socket.settimeout(None)
        os.set_blocking(descriptor, blocks)

    def write(self, line: bytes) -> int:
        return self._socket.send(line, socket.MSG_DONTWAIT)

    def __del__(self) -> None:
        self._socket.close()


class _Opened:
    """A pipe or a terminal, opened a second time: non-blocking here, unchanged for the programs that share it."""

    def __init__(self, descriptor: int) -> None:
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        self._descriptor = os.open(f"/proc/self/fd/{descriptor}", flags)

    def write(self, line: bytes) -> int:
        return os.write(self._descriptor, line)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


def flush_printed() -> bool:
    """Flushes the text that jobs printed. False when that took too long: Python's own exit would wait for a reader."""
    flush = threading.Thread(target=_flush_printed, name="flush", daemon=True)
    flush.start()
    flush.join(FLUSH_S)
    return not flush.is_alive()


def _flush_printed() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # full, closed, or missing
            stream.flush()


_outputs: weakref.WeakSet[Output] = weakref.WeakSet()


def _after_fork() -> None:
    for output in list(_outputs):
        output._after_fork()


os.register_at_fork(after_in_child=_after_fork)
