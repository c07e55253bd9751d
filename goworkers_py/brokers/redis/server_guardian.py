"""The keeper of an embedded server: a small process that lives as long as anybody uses the server; see `embedded`.

It imports nothing but the standard library: it is started for every run and stays in memory.
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

USERS, KEEPER, SERVER = "users.lock", "keeper.lock", "server.lock"
SOCKET, LOG = "redis.sock", "redis.log"

POLL_S = 0.05  # how often the keeper looks
GLANCE_S = 0.02  # how often somebody looks who waits for a start or a stop
ANSWER_S = 5.0  # a server that takes longer over one command has not answered
RESTART_S = 0.5  # from one start of the server to the next, at least
STOP_S = 30.0  # then the server is killed: its data has long been handed to the kernel

ANOTHER = 3  # exit code of a keeper that found another at work
# Bytes in `keeper.lock`: what its holder has seen of the server. A size, because a full disk still lets it be set.
UNKNOWN, READY, FAILED = 0, 1, 2


class ServerGuardian:
    """Looks after the server until the last user has left. Whoever makes one holds `lock`, on `keeper.lock`."""

    def __init__(self, directory: Path, address: str, binary: str, lock: int) -> None:
        self._directory = directory
        self._address = address
        self._binary = binary
        self._lock = lock
        self._child: subprocess.Popen[bytes] | None = None  # None as long as the server is one that was found
        self._ready = False
        self._next_start = 0.0  # monotonic

    def run(self) -> bool:
        """False if the server ended before it ever answered: nothing would be better next time."""
        with probe(self._directory / USERS) as users:
            while not try_lock(users, fcntl.LOCK_EX):
                if not self._look_after():
                    return False
                time.sleep(POLL_S if self._ready else GLANCE_S)
            self._stop()
            os.close(self._lock)  # before the users' lock: who gets that one must not take this keeper for a live one
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
        }  # fmt: skip
        command = [self._binary, *(word for name, value in options.items() for word in (f"--{name}", value))]
        try:
            # A server from 7.2 on refuses to start under a locale that the machine does not have.
            environment = {**os.environ, "LC_ALL": "C"}
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, cwd=self._directory, env=environment, umask=0o077, pass_fds=[lock]
            )
        except OSError as error:
            _say(f"cannot run {self._binary}: {error.strerror}")
        finally:
            os.close(lock)

    def _stop(self) -> None:
        deadline = time.monotonic() + STOP_S
        while self._lives() and time.monotonic() < deadline:
            if self._child is not None:
                self._child.terminate()  # again each time: a server that is just starting does not hear it yet
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(POLL_S)
            else:
                ask(self._address, "SHUTDOWN")
                time.sleep(POLL_S)
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        elif self._lives():
            _say("the server that an earlier keeper left does not stop: end it by hand")


def keep(directory: str, address: str, binary: str) -> None:
    """The keeper's process: a short one that says whether there is a keeper now, and the keeper in the background."""
    try:
        lock = take_lock(Path(directory, KEEPER), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(ANOTHER)
    os.ftruncate(lock, UNKNOWN)
    _log_to(Path(directory, LOG))
    if os.fork():
        os._exit(0)
    # A service manager or a shutdown signals every process at once; the users still need their server to stop in order.
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
    """A descriptor to try locks on. Unlocked in the end, as a child forked meanwhile has a copy that stays open."""
    descriptor = _open(path)
    try:
        yield descriptor
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def is_held(path: Path) -> bool:
    with probe(path) as descriptor:
        return not try_lock(descriptor, fcntl.LOCK_SH)


def ask(address: str, command: str) -> str:
    """The reply, or nothing."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(address)
            connection.sendall(f"{command}\r\n".encode())
            return connection.recv(256).decode("ascii", "replace")
        except OSError:
            return ""


def _log_to(log: Path) -> None:
    """Output goes to a fresh log, the server's as well; the log of the last run is kept beside it."""
    with contextlib.suppress(FileNotFoundError):
        log.replace(f"{log}.1")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)


def _say(what: str) -> None:
    sys.stderr.write(f"keeper: {what}\n")
