"""The file with the pid of the daemon, and a lock that says whether the daemon lives.

A pid proves nothing: after a crash it may belong to another program. So the daemon holds a lock on the file while it
lives. The kernel removes the lock when the process ends in any way: programs that the daemon starts do not inherit the
file, and its forks close it. The lock is flock's; a lock of lockf would end when a job reads the file and closes it.

Root may write the file in a directory where others can write too: so no link is followed, and a file that holds
anything else than a number is left as it is.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import ConfigError, WorkersError

log = logging.getLogger(__name__)

# How long `hold` waits: a process that looks at the file locks it for a moment too.
OTHERS_LOOK_S = 1.0

# Do not follow a link, and do not wait for the other end of a pipe.
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Pidfile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def __str__(self) -> str:
        return str(self._path)

    def hold(self, within_s: float = OTHERS_LOOK_S) -> None:
        """Writes the pid and locks the file until this process ends."""
        file = self._lock(Deadline(within_s))
        left = os.read(file, 32).decode("ascii", "replace").strip()
        os.ftruncate(file, 0)
        os.pwrite(file, b"%d\n" % os.getpid(), 0)
        self._file = file
        os.register_at_fork(after_in_child=self._close_in_fork)
        if left:
            log.warning("stale pidfile %s: process %s did not exit cleanly", self._path, left)

    def _close_in_fork(self) -> None:
        """A fork that outlives the daemon must not hold the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lock(self, deadline: Deadline) -> int:
        while True:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o644)
            except OSError as error:
                raise ConfigError(f"pidfile {self._path}: {_why_not(error, 'written')}") from None
            try:
                self._refuse_other_kinds(file)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), self._path.lstat()):
                    self._refuse_other_text(file)
                    return file
            except ConfigError:
                os.close(file)
                raise
            except OSError:  # locked, or removed by its last holder just now
                pid = _number(file)
            else:
                pid = None
            os.close(file)
            if deadline.left() == 0:
                raise WorkersError(f"pidfile {self._path}: pyworkers runs already, as process {pid}")
            threading.Event().wait(0.05)

    def _refuse_other_kinds(self, file: int) -> None:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise ConfigError(f"pidfile {self._path}: is no regular file, or has two names: name another path")

    def _refuse_other_text(self, file: int) -> None:
        """Called under the lock: another holder may be writing its pid before."""
        if os.fstat(file).st_size and _number(file) is None:
            raise ConfigError(
                f"pidfile {self._path}: holds something else than a number: delete it, or name another path"
            )

    def release(self) -> None:
        """Empties and removes the file. The lock stays until the process has ended: `end_holder` waits for that."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            with suppress(OSError):  # no right to write the directory any more: the empty file stays
                if os.path.samestat(os.fstat(self._file), self._path.lstat()):  # another file may be there by now
                    self._path.unlink()

    def holder(self) -> int | None:
        """The pid of the daemon that lives, or None."""
        with self._opened() as file:
            return _holder(file)

    def end_holder(self, ask: Callable[[int], None], within_s: float) -> int | None:
        """Asks the daemon to end, and waits. Returns its pid when it has ended, or None if there is none."""
        with self._opened() as file:
            pid = _holder(file)
            if pid is None:
                return None
            ask(pid)
            deadline = Deadline(within_s)
            while file is not None and _locked(file):
                if deadline.left() == 0:
                    raise WorkersError(f"process {pid} does not end; stop it again, and it requeues its jobs at once")
                threading.Event().wait(0.05)
            return pid

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        try:
            file = os.open(self._path, os.O_RDONLY | _SAFELY)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise WorkersError(f"pidfile {self._path}: {_why_not(error, 'read')}") from None
        try:
            yield file
        finally:
            os.close(file)


def _why_not(error: OSError, done: str) -> str:
    if error.errno in (errno.ELOOP, errno.EMLINK):  # EMLINK on FreeBSD
        return "is a symbolic link, which is not followed: remove it, or name the path that it leads to"
    return f"cannot be {done}: {error.strerror}"


def _holder(file: int | None) -> int | None:
    return _number(file) if file is not None and _locked(file) else None


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _number(file: int) -> int | None:
    text = os.pread(file, 32, 0).strip()
    return int(text) if text.isdigit() else None
