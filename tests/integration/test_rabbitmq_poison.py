"""Real daemons on RabbitMQ: a job that kills its process is buried after few deaths, and no other job is."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from daemon import Daemon
from harness import Process, job
from rabbit import RabbitServer
from raw_proxy import RawProxy
from waiting import eventually

from goworkers_py.config.options import Config

JOBS = """
    import os, pathlib, signal, time
    import goworkers_py as workers
    from goworkers_py.runtime import marked_runs

    marked_runs.GRACE_S = 1.0

    def note(word, text):
        with pathlib.Path("done").open("a") as done:
            done.write(f"{word} {text}\\n")

    @workers.job(queue="q")
    def work(number, seconds=0):
        note("began", number)
        time.sleep(seconds)
        note("ended", number)

    @workers.job(queue="q")
    def kill(number):
        note("killed", number)
        os.kill(os.getpid(), signal.SIGKILL)

    @workers.on_death
    def died(message, error):
        note("died", message.jid)
"""
FORGIVEN, LIMIT = 2, 3
Start = Callable[..., Daemon]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    daemons: list[Daemon] = []

    def start(address: str, **changes: str) -> Daemon:
        daemons.append(Daemon(tmp_path, address, JOBS, "-q", "q=5", changes=changes))
        return daemons[-1]

    yield start
    for one in daemons:
        one.kill()


@pytest.fixture
def process(rabbit_url: str) -> Iterator[Process]:
    one = Process(Config(broker=rabbit_url))
    with closing(one.broker):
        yield one


def push(process: Process, name: str, *arguments: list[object]) -> None:
    process.publish(*(job(f"{name}-{one[0]}", args=one, **{"class": name}) for one in arguments))


def done(folder: Path, word: str = "ended") -> list[str]:
    path = folder / "done"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split(" ", 1)[1] for line in lines if line.startswith(f"{word} ")]


def run_under_restart(start: Callable[[], Daemon], until: Callable[[], bool]) -> list[Daemon]:
    """Starts another daemon whenever one has died."""
    daemons = [start()]
    give_up_at = time.monotonic() + 60
    while not until():
        assert time.monotonic() < give_up_at, "\n".join(one.output for one in daemons)
        if daemons[-1].process.poll() is not None:
            daemons.append(start())
        time.sleep(0.05)
    return daemons


def test_a_job_that_kills_its_process_is_buried_and_the_jobs_beside_it_run(
    start: Start, rabbit_url: str, process: Process, tmp_path: Path
) -> None:
    push(process, "work", *([number, 0.05] for number in range(60)))
    push(process, "kill", [1])
    push(process, "work", *([number, 0.05] for number in range(60, 120)))
    daemons = run_under_restart(
        lambda: start(rabbit_url), lambda: bool(done(tmp_path, "died")) and len({*done(tmp_path)}) == 120
    )
    assert done(tmp_path, "killed") == ["1"] * (FORGIVEN + LIMIT)
    last = daemons[-1]
    told = last.says("poison: class=kill jid=kill-1")
    assert f"{LIMIT} processes died while they ran this job" in told
    push(process, "work", [120])
    assert eventually(lambda: "120" in done(tmp_path)), "the daemon does not go on"
    assert last.stop() == 0
    [dead] = process.consume(1, "pyworkers.dead")
    fields = json.loads(dead.payload)
    assert (fields["jid"], fields["error_class"]) == ("kill-1", "goworkers_py.PoisonPill")
    assert "recovered" not in fields
    assert done(tmp_path, "died") == ["kill-1"]
