"""The file that holds the number of the daemon's process, and says whether that lives.

A number proves nothing: after a crash it may belong to another program. So the daemon holds a lock on the file while it
lives. The kernel takes it away at the process's end, whatever that is: programs that it starts do not have the file,
and its forks close it. The lock is flock's; that of lockf would end when a job reads the file and closes it.

Root may write the file where others can write too: so no link is followed, and a file that holds anything else than a
number is left as it is.
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

# Who looks at the file holds a lock for a moment too.
OTHERS_LOOK_S = 1.0

# Not through a link, and without waiting for somebody at the other end of a pipe.
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Pidfile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def hold(self) -> None:
        """Until `release`, or the end of this process."""
        file = self._lock()
        left = os.read(file, 32).decode("ascii", "replace").strip()
        os.ftruncate(file, 0)
        os.pwrite(file, b"%d\n" % os.getpid(), 0)
        self._file = file
        os.register_at_fork(after_in_child=self._let_go)
        if left:
            log.warning("pidfile %s: process %s has ended without its farewell", self._path, left)

    def _let_go(self) -> None:
        """A fork that outlives the daemon must not hold it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lock(self) -> int:
        deadline = Deadline(OTHERS_LOOK_S)
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
        told = os.fstat(file)
        if not stat.S_ISREG(told.st_mode) or told.st_nlink > 1:
            raise ConfigError(f"pidfile {self._path}: is no file, or has two names: name another path")

    def _refuse_other_text(self, file: int) -> None:
        """Under the lock: a holder may be writing its number just now."""
        if os.fstat(file).st_size and _number(file) is None:
            raise ConfigError(
                f"pidfile {self._path}: holds something else than a number: delete it, or name another path"
            )

    def release(self) -> None:
        """The lock stays until this process has really ended: `end_holder` waits for that."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            with suppress(OSError):  # the directory is not ours any more: the empty file stays
                if os.path.samestat(os.fstat(self._file), self._path.lstat()):  # another may have been put there
                    self._path.unlink()

    def holder(self) -> int | None:
        """The process that lives, or None."""
        with self._opened() as file:
            return _holder(file)

    def end_holder(self, ask: Callable[[int], None], within_s: float) -> int | None:
        """Asks it to end and returns its number when it has, or None if there is none."""
        with self._opened() as file:
            pid = _holder(file)
            if pid is None:
                return None
            ask(pid)
            deadline = Deadline(within_s)
            while file is not None and _locked(file):
                if deadline.left() == 0:
                    raise WorkersError(f"process {pid} does not end; stop it again, and it gives its jobs back at once")
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
    if error.errno in (errno.ELOOP, errno.EMLINK):  # FreeBSD says the other
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
