"""A running process takes new versions of its central configuration."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path

import pytest
import redis as redis_py
from calls import Call
from daemon import Daemon, pyworkers
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.features.configuration.start import CentralSource

pytestmark = pytest.mark.server

JOBS = """
    import logging
    import goworkers_py as workers

    stripe = workers.limit("stripe", concurrent=1)

    @workers.job("Pay", queue="mail", limits=[stripe])
    def pay():
        logging.getLogger("shop").debug("paid")
"""
FIRST = """
[pyworkers]
log_level = {level}
poll_interval = {poll}
[queue:mail]
concurrency = {threads}
[pool:web]
queues = high, low
weights = {weights}
concurrency = {threads}
[limit:stripe]
concurrent = {threads}
"""


def text(level: str = "info", poll: float = 5, threads: int = 2, weights: str = "3, 1") -> str:
    return FIRST.format(level=level, poll=poll, threads=threads, weights=weights)


@pytest.fixture
def push(call: Call, here: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("PYWORKERS_BROKER", redis_url)

    def run(config: str) -> None:
        (here / "conf.ini").write_text(config, "utf-8")
        assert call("config", "push", "conf.ini", "--name", "billing").returncode == 0

    return run


def store(redis: redis_py.Redis, version: int, text: str) -> None:
    """As everybody may who may write to Redis."""
    record = {"v": 1, "text": text, "by": "a\nstranger", "at": 1, "of": 0}
    redis.hset("pyworkers:config:billing", str(version), json.dumps(record))
    redis.hset("pyworkers:configs", "billing", version)
    redis.publish("pyworkers:configs", "billing")


def the_process(app: App) -> Process:
    # A process is in the list from its first beat on, which on a busy machine comes after it said that it is ready.
    [process] = eventually(app.inspector.processes)
    return process


def test_a_running_process_takes_what_can_change_and_tells_what_waits(
    push,
    call: Call,
    here: Path,
    redis_url: str,
    redis: redis_py.Redis,
    called_app: App,  # type: ignore[no-untyped-def]
) -> None:
    push(text())
    with Daemon(here, redis_url, JOBS, "--config-from", "billing") as daemon:
        daemon.ready()
        assert eventually(lambda: (found := the_process(called_app).config) and found.applied == 1)
        push(text("debug", 0.1, 5, "1, 4") + "[queue:new]\n")
        assert "poll_interval" in daemon.says("billing version 2 by ")
        daemon.says("billing version 2: this waits for the next start of this process: [queue:new]")
        assert eventually(lambda: {one.threads for one in the_process(called_app).pools} == {5})
        assert eventually(lambda: '"low":4' in str(redis.hget(the_process(called_app).identity, "info")))
        assert eventually(lambda: redis.hget("pyworkers:limit:stripe", "concurrent") == b"5")
        assert eventually(lambda: (found := the_process(called_app).config) and found.waiting == ("[queue:new]",))
        told = call("doctor").stdout
        assert "has billing version 2, but this waits for its next start: [queue:new]; restart it" in told
        redis.lpush("queue:mail", json.dumps({"class": "Pay", "args": [], "jid": "a" * 24, "queue": "mail"}))
        daemon.says("DEBUG: paid")
        assert call("config", "rollback", "--name", "billing").returncode == 0
        assert eventually(lambda: {one.threads for one in the_process(called_app).pools} == {2})
        assert eventually(lambda: (found := the_process(called_app).config) and found.applied == 3)
        assert daemon.output.count("waits for the next start") == 1
        assert daemon.stop() == 0


def test_a_version_that_this_process_cannot_take_leaves_the_old_one_in_force(
    push,
    call: Call,
    here: Path,
    redis_url: str,
    redis: redis_py.Redis,
    called_app: App,  # type: ignore[no-untyped-def]
) -> None:
    """The text is right by itself. Over the local file, which runs one queue in order, it is wrong. What a stranger
    wrote into it is ignored."""
    (here / "local.ini").write_text("[queue:invoices]\nmode = serial\n")
    push(text())
    with Daemon(here, redis_url, JOBS, "-c", "local.ini", "--config-from", "billing") as daemon:
        daemon.ready()
        push(text(threads=9) + "[queue:invoices]\nconcurrency = 2\n")
        daemon.says("billing version 2 cannot be taken, version 1 stays in force")
        assert eventually(lambda: {one.concurrency for one in called_app.inspector.processes()} == {5})
        store(redis, 3, text(threads=3) + f"[pyworkers:]\nrequire = evil\n[pyworkers ]\nlogfile = {here / 'evil'}\n")
        daemon.says("billing version 3 by ")
        assert "[pyworkers:] require" in daemon.says("billing version 3: ignored, because these options are local: ")
        assert eventually(lambda: {one.concurrency for one in called_app.inspector.processes()} == {7})
        assert daemon.stop() == 0
    assert not (here / "evil").exists()


def test_the_doctor_finds_a_process_without_the_newest_version(
    push,
    call: Call,
    here: Path,
    redis_url: str,
    redis: redis_py.Redis,
    called_app: App,  # type: ignore[no-untyped-def]
) -> None:
    push(text())
    with Daemon(here, redis_url, JOBS, "--config-from", "billing") as daemon:
        daemon.ready()
        assert eventually(lambda: (found := the_process(called_app).config) and found.applied == 1)
        late = json.loads(redis.hget("pyworkers:config:billing", "1") or "")
        # A text that the process cannot take: it looks by itself, and when it does depends on the machine.
        unusable = {**late, "text": "[no such section]", "at": late["at"] - 100}
        redis.hset("pyworkers:config:billing", "7", json.dumps(unusable))
        redis.hset("pyworkers:configs", "billing", 7)
        done = call("doctor")
        assert done.returncode == 1
        assert "has billing version 1, and the newest is 7; its log says why" in done.stdout


@pytest.mark.timeout(180)
def test_start_restart_reload_and_check_read_it_too(push, call: Call, here: Path) -> None:  # type: ignore[no-untyped-def]
    (here / "jobs.py").write_text(textwrap.dedent(JOBS))
    pidfile, log = here / "pid", here / "log"
    push("[queue:mail]\n")
    (here / "local.ini").write_text(
        f"[pyworkers]\nrequire = jobs\npidfile = {pidfile}\nlogfile = {log}\nprocesses = 2\n"
    )
    told = [
        pyworkers(
            *words,
            "-c",
            "local.ini",
            "--config-from",
            "billing",
            cwd=here,
            PYWORKERS_BROKER=os.environ["PYWORKERS_BROKER"],
        )
        for words in (("config", "check"), ("start",), ("reload",), ("restart",))
    ]
    stopped = pyworkers("stop", "--pidfile", str(pidfile), cwd=here)
    assert [one.returncode for one in told] == [0] * 4, [one.stderr for one in told]
    assert "the configuration is fine" in told[0].stdout
    assert "is replacing its children" in told[2].stdout
    assert (stopped.returncode, " has ended" in stopped.stdout) == (0, True)


EVIL = """
[pyworkers]
require = evil
user = nobody
logfile = {here}/evil
directory = /
broker = redis://evil:1
[middleware]
prepend = evil:Link
[queue:mail]
handler = evil:run
codec = evil:Codec
concurrency = 3
[periodic:every]
every = 1
class = Evil
[web]
port = 1
[partition:evil]
queues = other 1
broker = redis://evil:1
handler = evil:run
"""


def test_a_text_of_a_stranger_names_no_code_files_or_users_for_a_process_that_starts(
    push,
    here: Path,
    redis_url: str,
    redis: redis_py.Redis,  # type: ignore[no-untyped-def]
) -> None:
    (here / "evil.py").write_text(f"open({str(here / 'evil')!r}, 'w')")
    store(redis, 1, EVIL.format(here=here))
    with Daemon(here, redis_url, JOBS, "--config-from", "billing") as daemon:
        assert "mail (3 threads)" in daemon.says("is processing ")
        told = daemon.says("billing version 1: ignored, because these options are local: ")
        for name in ("[pyworkers] require", "[middleware] prepend", "[queue:mail] handler", "[partition:evil] broker"):
            assert name in told
        assert daemon.stop() == 0
        assert daemon.output.count("ignored, because") == 1
    assert not (here / "evil").exists()


@pytest.mark.parametrize(
    ("field", "record"),
    [("1", "x" * 4_100_000), ("1", "{broken"), ("1", "[" * 100_000), ("1", json.dumps({"v": 1, "text": "x" * 300_000,
     "by": "", "at": 1, "of": 0})), ("1", json.dumps({"v": 1, "text": "[queue:a]\nconcurrency = 100000", "by": "",
     "at": 1, "of": 0}))],
    ids=["large", "broken", "deep", "long", "threads"],
)  # fmt: skip
def test_a_record_that_cannot_be_used_lets_commands_go_on_with_the_local_file(
    call: Call, here: Path, redis_url: str, redis: redis_py.Redis, called_app: App, field: str, record: str
) -> None:
    (here / "local.ini").write_text("[pyworkers]\nrequire = jobs\n[queue:q]\nconcurrency = 2\n")
    redis.hset("pyworkers:config:billing", field, record)
    redis.hset("pyworkers:configs", "billing", field)
    checked = call("config", "check", "-c", "local.ini", "--config-from", "billing", "--broker", redis_url)
    assert checked.returncode == 2, checked.stdout
    source = called_app.config.origin
    assert isinstance(source, CentralSource)
    assert source.version == 0
    assert source.fault in checked.stderr
    assert [queue.concurrency for queue in called_app.config.queues] == [2]


def test_a_process_that_could_not_use_a_version_takes_the_next_one(
    push,
    here: Path,
    redis_url: str,
    redis: redis_py.Redis,
    called_app: App,  # type: ignore[no-untyped-def]
) -> None:
    (here / "local.ini").write_text("[queue:mail]\nconcurrency = 2\n")
    store(redis, 1, "[queue:mail]\nconcurrency = 100000\n")
    with Daemon(here, redis_url, JOBS, "-c", "local.ini", "--config-from", "billing") as daemon:
        daemon.says("the configuration billing cannot be used, and this process starts with its local configuration")
        daemon.ready()
        push("[queue:mail]\nconcurrency = 4\n")
        assert eventually(lambda: {one.concurrency for one in called_app.inspector.processes()} == {4})
        assert eventually(lambda: (found := the_process(called_app).config) and found.applied == 2)
        assert daemon.stop() == 0
