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
timeout = {timeout}
[queue:mail]
concurrency = {threads}
[pool:web]
queues = high, low
weights = {weights}
concurrency = {threads}
[limit:stripe]
concurrent = {threads}
"""


def text(level: str = "info", timeout: int = 5, threads: int = 2, weights: str = "3, 1") -> str:
    return FIRST.format(level=level, timeout=timeout, threads=threads, weights=weights)


@pytest.fixture
def push(call: Call, here: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("PYWORKERS_BROKER", redis_url)

    def run(config: str) -> None:
        (here / "conf.ini").write_text(config, "utf-8")
        assert call("config", "push", "conf.ini", "--name", "billing").returncode == 0

    return run


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
        push(text("debug", 7, 5, "1, 4"))
        daemon.says("billing version 2: these options wait for the next start of this process: timeout")
        assert eventually(lambda: {one.threads for one in the_process(called_app).pools} == {5})
        assert eventually(lambda: '"low":4' in str(redis.hget(the_process(called_app).identity, "info")))
        assert eventually(lambda: redis.hget("pyworkers:limit:stripe", "concurrent") == b"5")
        assert eventually(lambda: (found := the_process(called_app).config) and found.waiting == ("timeout",))
        told = call("doctor").stdout
        assert "has billing version 2, but these options wait for its next start: timeout; restart it" in told
        redis.lpush("queue:mail", json.dumps({"class": "Pay", "args": [], "jid": "a" * 24, "queue": "mail"}))
        daemon.says("DEBUG: paid")
        assert call("config", "rollback", "--name", "billing").returncode == 0
        assert eventually(lambda: {one.threads for one in the_process(called_app).pools} == {2})
        assert eventually(lambda: (found := the_process(called_app).config) and found.applied == 3)
        assert daemon.output.count("wait for the next start") == 1
        assert daemon.stop() == 0


def test_a_version_that_this_process_cannot_take_leaves_the_old_one_in_force(
    push,
    call: Call,
    here: Path,
    redis_url: str,
    redis: redis_py.Redis,
    called_app: App,  # type: ignore[no-untyped-def]
) -> None:
    """The text is right by itself. The variable of a partition that it lacks makes it wrong here."""
    partition = "[partition:other]\nqueues = b 1\n"
    push(text() + partition)
    variables = {"PYWORKERS_PARTITION_OTHER_TAG": "b"}
    with Daemon(here, redis_url, JOBS, "--config-from", "billing", changes=variables) as daemon:
        daemon.ready()
        push(text(threads=9))
        daemon.says("billing version 2 cannot be taken, version 1 stays in force")
        assert eventually(lambda: {one.concurrency for one in called_app.inspector.processes()} == {4, 1})
        push(text(threads=3) + partition)
        daemon.says("billing version 3 by ")
        assert eventually(lambda: {one.concurrency for one in called_app.inspector.processes()} == {6, 1})


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
    push(f"[pyworkers]\nrequire = jobs\npidfile = {pidfile}\nlogfile = {log}\nprocesses = 2\n[queue:mail]\n")
    told = [
        pyworkers(*words, "--config-from", "billing", cwd=here, PYWORKERS_BROKER=os.environ["PYWORKERS_BROKER"])
        for words in (("config", "check"), ("start",), ("reload",), ("restart",))
    ]
    stopped = pyworkers("stop", "--pidfile", str(pidfile), cwd=here)
    assert [one.returncode for one in told] == [0] * 4, [one.stderr for one in told]
    assert "the configuration is fine" in told[0].stdout
    assert "is replacing its children" in told[2].stdout
    assert (stopped.returncode, " has ended" in stopped.stdout) == (0, True)
