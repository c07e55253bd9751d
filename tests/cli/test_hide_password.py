"""Passwords of the server: on the command line, which hides them, and in files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from calls import JOBS, Call, one_line
from daemon import Daemon, pyworkers
from servers import RedisServer
from waiting import eventually

from goworkers_py.cli.hide_password import without_addresses

NOWHERE = "redis://127.0.0.1:1/0"


@pytest.mark.server
@pytest.mark.parametrize("password", ["", ":secret@"])
def test_both_names_on_the_command_line_are_refused(password: str) -> None:
    address = NOWHERE.replace("//", f"//{password}")
    done = pyworkers("stats", "--broker", address, "--redis", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr) == "--broker and --redis are two names of one option: leave one of them out"


@pytest.mark.server
@pytest.mark.parametrize("flag", ["--broker", "--redis"])
def test_a_password_on_the_command_line_is_a_warning(flag: str) -> None:
    done = pyworkers("stats", flag, NOWHERE.replace("//", "//:secret@"))
    first, _ = done.stderr.splitlines()
    assert first.startswith(f"pyworkers: everybody on this machine could read the password in {flag} until now")
    assert first.endswith(f"into the configuration file or into PYWORKERS_{flag.removeprefix('--').upper()}")
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    ("flag", "variable"),
    [
        ("--broker", "PYWORKERS_REDIS"),
        ("--redis", "PYWORKERS_BROKER"),
        pytest.param("--broker", "PYWORKERS_BROKER", marks=pytest.mark.slow),
        pytest.param("--redis", "PYWORKERS_REDIS", marks=pytest.mark.slow),
    ],
)
def test_an_address_with_a_password_overrides_the_environment(flag: str, variable: str, guarded: RedisServer) -> None:
    done = pyworkers("stats", flag, guarded.url.replace("//", "//:s%25cret%40%2Fx@"), **{variable: NOWHERE})
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1), done.stderr


@pytest.mark.server
def test_an_address_with_a_password_hides_no_error_of_the_environment() -> None:
    address = NOWHERE.replace("//", "//:secret@")
    done = pyworkers("stats", "--broker", address, PYWORKERS_BROKER=NOWHERE, PYWORKERS_REDIS=NOWHERE)
    assert done.returncode == 2
    assert "environment: PYWORKERS_BROKER and PYWORKERS_REDIS are two names of one option" in done.stderr


def test_a_password_on_the_command_line_is_warned_of_once_for_all_processes(redis_url: str, here: Path) -> None:
    address = redis_url.replace("//", "//nobody:secret@")
    with Daemon(here, address, JOBS, "--processes", "2") as daemon:
        assert daemon.wait() == 1
    assert daemon.output.count("everybody on this machine could read the password") == 1


@pytest.fixture
def guarded(own_redis: RedisServer) -> RedisServer:
    """A server that asks for the password `s%cret@/x`."""
    own_redis.client().config_set("requirepass", "s%cret@/x")
    return own_redis


def cmdlines(*pids: int) -> list[str]:
    return [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in pids]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="the test reads command lines from /proc")
@pytest.mark.parametrize(
    "flag",
    [
        "--broker",
        "--redis=",
        pytest.param("--broker=", marks=pytest.mark.slow),
        pytest.param("--redis", marks=pytest.mark.slow),
    ],
)
def test_no_command_line_shows_a_password_once_a_daemon_works(flag: str, guarded: RedisServer, here: Path) -> None:
    address = guarded.url.replace("//", "//:s%25cret%40%2Fx@")
    words = [flag + address] if flag.endswith("=") else [flag, address]
    (here / "conf.ini").write_text("[pyworkers]\nrequire = jobs\npidfile = pid\nlogfile = log\nprocesses = 2\n")
    started = pyworkers("start", "-c", "conf.ini", "-q", "q", *words, cwd=here)
    try:
        assert started.returncode == 0, started.stderr
        assert eventually(lambda: (here / "log").read_text().count("; stop it with TERM") == 2)
        pid = int((here / "pid").read_text())
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
        lines = cmdlines(pid, *map(int, children.stdout.split()))
        assert len(lines) == 3
        assert all("cret" not in line and "-q q" in line for line in lines), lines
    finally:
        stopped = pyworkers("stop", "-c", "conf.ini", cwd=here)
    assert stopped.returncode == 0, stopped.stderr
    assert "cret" not in (here / "log").read_text()


def test_a_program_that_sets_sys_argv_may_give_a_password(guarded: RedisServer) -> None:
    words = ["pyworkers", "stats", "--redis", guarded.url.replace("//", "//:s%25cret%40%2Fx@")]
    program = f"import sys; sys.argv = {words!r}; from goworkers_py.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("variable", ["PYWORKERS_BROKER_PASSWORD_FILE", "PYWORKERS_REDIS_PASSWORD_FILE"])
@pytest.mark.parametrize("flag", ["--broker", "--redis"])
def test_a_password_is_read_from_a_file(flag: str, variable: str, guarded: RedisServer, here: Path, call: Call) -> None:
    (here / "password").write_text("s%cret@/x\n")
    done = call("stats", flag, guarded.url, **{variable: "password"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["broker", "redis"])
@pytest.mark.parametrize(
    ("content", "address", "told"),
    [
        (None, "redis://h", "NAME_password_file password: cannot be read: No such file or directory"),
        (b"", "redis://h", "NAME_password_file password: is empty"),
        (b"\xff", "redis://h", "NAME_password_file password: is no text in UTF-8"),
        (b"x", "redis://:y@h", "NAME_password_file: the address in NAME has a password already"),
        (b"x", "redis://h?password=y", "NAME_password_file: the address in NAME has a password already"),
        (b"x", "embedded", "NAME_password_file: the address in NAME needs no password"),
    ],
)
def test_a_wrong_password_file_is_one_line_and_exit_code_2(
    content: bytes | None, address: str, told: str, name: str, here: Path, call: Call
) -> None:
    if content is not None:
        (here / "password").write_bytes(content)
    variable = f"PYWORKERS_{name.upper()}"
    done = call("stats", **{variable: address, f"{variable}_PASSWORD_FILE": "password"})
    assert (done.returncode, one_line(done.stderr)) == (2, told.replace("NAME", name))


@pytest.mark.parametrize(
    ("arguments", "addresses", "others"),
    [
        ("run -q q", [], "run -q q"),
        ("run --redis a -q q", [("redis", "a")], "run -q q"),
        ("--redis=a run --broker b", [("redis", "a"), ("broker", "b")], "run"),
        ("run --redis", [], "run"),
        ("run --broker", [], "run"),
        (
            "run --brokers a --broker-password-file=b -q --broker=",
            [("broker", "")],
            "run --brokers a --broker-password-file=b -q",
        ),
        ("enqueue J -- --redis a", [], "enqueue J -- --redis a"),
    ],
)
def test_addresses_are_separated_from_the_other_words(
    arguments: str, addresses: list[tuple[str, str]], others: str
) -> None:
    assert without_addresses(arguments.split()) == (addresses, others.split())
