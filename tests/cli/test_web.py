"""`pyworkers web`: the pages alone, over real HTTP; `web grant`; and the pages beside the jobs of a daemon."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from apps import own_app
from click.testing import CliRunner
from daemon import Daemon, command, environment
from servers import free_port
from waiting import eventually

from goworkers_py.cli.pyworkers import main
from goworkers_py.core.errors import ConfigError
from goworkers_py.web.site.access_file import read


def get(address: str, **headers: str) -> tuple[int, str]:
    asked = urllib.request.Request(address, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@contextmanager
def pages(redis_url: str, *flags: str, **changes: str) -> Iterator[tuple[str, subprocess.Popen[str], str]]:
    """Their address, their process, and the token of its start."""
    running = subprocess.Popen(
        command("web", "--port", "0", "--broker", redis_url, *flags), env=environment(**changes),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        said = running.stdout.readline()
        found = re.fullmatch(r"pages: (http://\S+:\d+)/(?:\?token=(\S+))?\n", said)
        assert found, (said, running.stderr.read() if running.stderr else "")
        yield found[1], running, found[2]
    finally:
        running.terminate()
        running.communicate()


@pytest.mark.server
@pytest.mark.parametrize("for_everybody", [False, True], ids=["own", "everybody"])
def test_the_token_is_written_into_no_file_that_everybody_may_read(
    redis_url: str, tmp_path: Path, for_everybody: bool
) -> None:
    said = tmp_path / "said"
    said.touch()
    said.chmod(0o644 if for_everybody else 0o600)
    with said.open("w") as file:
        running = subprocess.Popen(
            command("web", "--port", "0", "--broker", redis_url), env=environment(), stdout=file, stderr=file
        )
    try:
        assert eventually(lambda: "pages: http" in said.read_text())
    finally:
        running.terminate()
        running.wait()
    assert ("?token=" in said.read_text()) is not for_everybody
    assert ("chmod o-r" in said.read_text()) is for_everybody


@pytest.mark.server
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_the_pages_are_served_until_a_signal(redis_url: str, ending: signal.Signals) -> None:
    with own_app(redis_url) as app, pages(redis_url) as (address, running, token):
        app.enqueue("mail", "MailJob", ["ada"])
        status, text = get(f"{address}/queues", Authorization=f"Bearer {token}")
        assert status == 200
        assert 'href="/queue?name=mail"' in text
        assert get(f"{address}/queues", Host="evil.example", Authorization=f"Bearer {token}")[0] == 403
        running.send_signal(ending)
        assert running.wait(20) == 0


@pytest.mark.server
def test_each_change_and_push_is_logged_as_run_logs(redis_url: str, tmp_path: Path) -> None:
    file = tmp_path / "conf.ini"
    file.write_text(f"[pyworkers]\nlogfile = web.log\nlog_format = json\ndirectory = {tmp_path}\n")
    log, old = tmp_path / "web.log", tmp_path / "web.log.1"
    with own_app(redis_url), pages(redis_url, "-c", str(file)) as (address, running, token):
        assert change(token, f"{address}/api/enqueue", **{"class": "MailJob", "args": ["ada"]}) == 200
        assert change(token, f"{address}/api/queue/pause", name="mail") == 200
        log.rename(old)
        running.send_signal(signal.SIGHUP)
        assert eventually(log.exists)
        assert change(token, f"{address}/api/queue/resume", name="mail") == 200
    told = [json.loads(line)["msg"] for line in (old.read_text() + log.read_text()).splitlines()]
    changes = [line for line in told if line.startswith("pages: ") and " who=" in line]
    assert [line.split(": ")[1] for line in changes] == ["enqueue", "queue pause", "queue resume"]
    assert "source=127.0.0.1" in changes[0]
    assert " count=1 " in changes[0]


def change(token: str, address: str, **fields: Any) -> int:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(address, json.dumps(fields).encode(), headers)
    with urllib.request.urlopen(asked, timeout=20) as answer:
        return int(answer.status)


@pytest.mark.server
def test_a_token_of_the_environment_lets_in_and_is_printed_nowhere(redis_url: str) -> None:
    token = "a-token-that-somebody-has-made"
    with pages(redis_url, PYWORKERS_WEB_TOKEN=token) as (address, running, printed):
        assert printed == "$PYWORKERS_WEB_TOKEN"
        assert get(f"{address}/api/queues", Authorization=f"Bearer {token}") == (200, '{"queues": []}')
        assert get(f"{address}/api/queues", Authorization=f"Bearer {printed}")[0] == 401
        running.terminate()
        assert token not in "".join(running.communicate())


@pytest.mark.server
def test_a_weak_token_of_the_environment_is_refused(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYWORKERS_WEB_TOKEN", "secret")
    code, _, told = run("serve", "--port", "0", "--broker", redis_url)
    assert (code, told.count("\n")) == (2, 1)
    assert "PYWORKERS_WEB_TOKEN must have 22 to 200" in told


@pytest.mark.server
def test_with_an_access_file_a_token_is_needed(redis_url: str, tmp_path: Path) -> None:
    made = subprocess.run(
        command("web", "grant", "ci", "--role", "act"), env=environment(), capture_output=True, text=True, check=True
    )
    file = tmp_path / "access"
    file.write_text(made.stdout)
    token = made.stderr.split()[-1]
    with pages(redis_url, "--access-file", str(file)) as (address, _, _):
        assert get(f"{address}/queues")[0] == 401
        assert get(f"{address}/api/queues")[0] == 401
        assert get(f"{address}/api/queues", Authorization=f"Bearer {token}") == (200, '{"queues": []}')
        assert get(f"{address}/api/queues", Authorization=f"Bearer {token}x")[0] == 401


def run(*arguments: str, told: str = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["web", *arguments], input=told)
    return result.exit_code, result.stdout, result.stderr


def test_a_password_is_read_from_a_pipe_and_only_its_hash_is_printed(tmp_path: Path) -> None:
    code, line, _ = run("grant", "ada", "--password", "--role", "act", told="correct horse battery\n")
    assert code == 0
    assert "correct" not in line
    (tmp_path / "access").write_text(line)
    (found,) = read(tmp_path / "access").values()
    assert (found.name, found.role, found.fits_password("correct horse battery"), found.fits_password("wrong")) == (
        "ada",
        "act",
        True,
        False,
    )


def test_a_short_password_and_a_broken_name_are_refused() -> None:
    code, _, told = run("grant", "ada", "--password", told="fourteen chars\n")
    assert (code, told.count("\n")) == (2, 1)
    assert told.startswith("pyworkers: a password needs at least 15 characters: take some words")
    assert run("grant", "a b")[0] == 2


@pytest.mark.server
def test_pages_for_everybody_in_the_network_are_refused(redis_url: str) -> None:
    code, _, told = run("serve", "--host", "0.0.0.0", "--broker", redis_url)
    assert code == 2
    assert "everybody in the network could see and delete jobs" in told


@pytest.mark.server
def test_a_port_in_use_is_an_error_of_one_line(redis_url: str) -> None:
    with pages(redis_url) as (address, _, _):
        code, _, told = run("serve", "--port", address.rpartition(":")[2], "--broker", redis_url)
    assert (code, told.count("\n")) == (2, 1)
    assert "cannot listen" in told
    assert told.endswith("; choose another one with `port` in [web], or --port of `pyworkers web`\n")


@pytest.mark.server
def test_without_jinja2_one_line_says_what_to_install(redis_url: str) -> None:
    blocked = "import sys; sys.modules['jinja2'] = None; from goworkers_py.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", blocked, "web", "--port", "0", "--broker", redis_url], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr == "pyworkers: the pages need jinja2: pip install 'goworkers-py[web]'\n"


JOBS = """
import goworkers_py as workers

@workers.job("Known", queue="q")
def known():
    pass
"""


@pytest.mark.server
@pytest.mark.parametrize("flags", [(), ("--processes", "2")], ids=["one", "two"])
def test_the_pages_are_served_beside_the_jobs(redis_url: str, tmp_path: Path, flags: tuple[str, ...]) -> None:
    port = free_port()
    (tmp_path / "conf.ini").write_text(f"[web]\nport = {port}\ntitle = fleet of tests\n")
    with own_app(redis_url) as app:
        app.enqueue("q", "Unknown", [])
        app.inspector.pause("q")
        with Daemon(tmp_path, redis_url, JOBS, "-q", "q=1", "-c", str(tmp_path / "conf.ini"), *flags) as running:
            address, _, token = running.says("pages: http://127.0.0.1").rpartition("pages: ")[2].partition("?token=")
            assert get(address)[0] == 401
            bearer = f"Bearer {token}"
            status, text = get(address, Authorization=bearer)
            assert status == 200
            assert "fleet of tests" in text
            assert eventually(lambda: _processes(port, bearer) == (2 if flags else 1), 60)
            told = "no code is registered for class Unknown"
            if not flags:  # a parent of processes does not know their code
                assert eventually(lambda: told in get(address, Authorization=bearer)[1])
            assert running.output.count(token) == 1
            assert running.stop() == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)


def _processes(port: int, bearer: str) -> int:
    text = get(f"http://127.0.0.1:{port}/api/queues", Authorization=bearer)[1]
    (found,) = re.findall(r'"processes": (\d+)', text) or ["0"]
    return int(found)


@pytest.mark.server
def test_a_daemon_does_not_start_where_its_pages_cannot_be_served(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "conf.ini").write_text("[web]\nport = 8080\nhost = 0.0.0.0\n")
    result = CliRunner().invoke(main, ["run", "-c", str(tmp_path / "conf.ini"), "--broker", redis_url])
    assert result.exit_code == 2
    assert "name an access_file" in result.stderr


def test_pages_that_nobody_asked_for_import_nothing() -> None:
    looked = (
        "import sys, goworkers_py, goworkers_py.cli, goworkers_py.cli.run; "
        "assert not {'jinja2', 'http.server', 'wsgiref', 'goworkers_py.web.site'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", looked], check=True)


def test_an_unknown_option_of_the_section_is_refused(tmp_path: Path) -> None:
    from goworkers_py.config.loader import load

    file = tmp_path / "conf.ini"
    file.write_text("[web]\nprot = 1\n")
    with pytest.raises(ConfigError, match="did you mean 'port'"):
        load(file)
