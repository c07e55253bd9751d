"""The guardian of an embedded server: a small process that runs while the server has users; see `embedded_server`.

It imports only the standard library, because it starts quickly then and needs little memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# "keeper.lock" has its name from earlier versions, whose processes may share the directory.
USERS, GUARDIAN, SERVER = "users.lock", "keeper.lock", "server.lock"
SOCKET, LOG = "redis.sock", "redis.log"

POLL_S = 0.05  # how often the guardian looks at the server
GLANCE_S = 0.02  # how often a process looks that waits for the start or the stop of a server
ANSWER_S = 5.0  # time limit for the answer to one command
RESTART_S = 0.5  # shortest time from one start of the server to the next
STOP_S = 30.0  # then the server is killed: the kernel has its data by then

ANOTHER = 3  # exit code of a guardian that finds another guardian
# The state of the server, as the guardian has seen it, is the size of `keeper.lock` in bytes. A size can be set even
# when the disk is full.
UNKNOWN, READY, FAILED = 0, 1, 2


class ServerGuardian:
    """Keeps the server running until the last user has left. `lock`: a descriptor that holds `keeper.lock`."""

    def __init__(self, directory: Path, address: str, binary: str, lock: int, stop_s: float = STOP_S) -> None:
        self._directory = directory
        self._address = address
        self._binary = binary
        self._lock = lock
        self._stop_s = stop_s
        self._child: subprocess.Popen[bytes] | None = None  # None: the server is an earlier guardian's
        self._ready = False
        self._next_start = 0.0  # monotonic

    def run(self) -> bool:
        """False when the server ended before its first answer: another start would fail too."""
        with probe(self._directory / USERS) as users:
            while not try_lock(users, fcntl.LOCK_EX):
                if not self._look_after():
                    return False
                time.sleep(POLL_S if self._ready else GLANCE_S)
            self._stop()
            # Before `users.lock` is freed: the process that gets `users.lock` must not find `keeper.lock` held.
            os.close(self._lock)
        return True

    def _look_after(self) -> bool:
        if self._lives():
            self._ready = self._ready or self._answers()
        elif self._child is not None and not self._ready:
            os.ftruncate(self._lock, FAILED)
            return False
        elif time.monotonic() >= self._next_start:
            self._next_start = time.monotonic() + RESTART_S
            self._start()
        return True

    def _lives(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return is_held(self._directory / SERVER)

    def _answers(self) -> bool:
        answers = ask(self._address, "PING").startswith("+PONG")
        if answers:
            os.ftruncate(self._lock, READY)
        return answers

    def _start(self) -> None:
        try:
            lock = take_lock(self._directory / SERVER, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            _say(f"cannot lock {SERVER}: {error.strerror}")
            return
        options = {
            "dir": ".", "port": "0", "unixsocket": SOCKET, "unixsocketperm": "600",
            "appendonly": "yes", "appendfsync": "everysec", "save": "",
            "aof-use-rdb-preamble": "no",  # so that another server can read the file, see `embedded_server`
        }  # fmt: skip
        command = [self._binary, *(word for name, value in options.items() for word in (f"--{name}", value))]
        try:
            # Since 7.2 a server refuses to start with a locale that the machine does not have.
            environment = {**os.environ, "LC_ALL": "C"}
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, cwd=self._directory, env=environment, umask=0o077, pass_fds=[lock]
            )
        except OSError as error:
            _say(f"cannot run {self._binary}: {error.strerror}")
        finally:
            os.close(lock)

    def _stop(self) -> None:
        deadline = time.monotonic() + self._stop_s
        while self._lives() and time.monotonic() < deadline:
            if self._child is not None:
                self._child.terminate()  # in each round: a server that is just starting ignores SIGTERM
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(POLL_S)
            else:
                ask(self._address, "SHUTDOWN")
                time.sleep(POLL_S)
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        elif self._lives():
            _say("the server of an earlier guardian does not stop: kill it by hand")


def keep(directory: str, address: str, binary: str) -> None:
    """The guardian's process: exits with ANOTHER, or leaves the guardian running in the background and exits with 0."""
    try:
        lock = take_lock(Path(directory, GUARDIAN), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(ANOTHER)
    os.ftruncate(lock, UNKNOWN)
    _log_to(Path(directory, LOG))
    if os.fork():
        os._exit(0)
    # A service manager or a shutdown signals every process at once; the users need the server for their own stop.
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    sys.exit(0 if ServerGuardian(Path(directory), address, binary, lock).run() else 1)


def take_lock(path: Path, how: int) -> int:
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def probe(path: Path) -> Iterator[int]:
    """A descriptor to try locks on. Unlocked at the end: a child that was forked meanwhile has an open copy."""
    descriptor = _open(path)
    try:
        yield descriptor
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def is_held(path: Path) -> bool:
    with probe(path) as descriptor:
        return not try_lock(descriptor, fcntl.LOCK_SH)


def ask(address: str, command: str, within_s: float = ANSWER_S) -> str:
    """Returns the first bytes of the reply; an empty text when there is none."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(within_s)
        try:
            connection.connect(address)
            connection.sendall(f"{command}\r\n".encode())
            return connection.recv(256).decode("ascii", "replace")
        except OSError:
            return ""


def _log_to(log: Path) -> None:
    """Sends the output of guardian and server to a new log, and keeps the last one beside it, as redis.log.1."""
    with contextlib.suppress(FileNotFoundError):
        log.replace(f"{log}.1")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)


def _say(what: str) -> None:
    sys.stderr.write(f"guardian: {what}\n")
