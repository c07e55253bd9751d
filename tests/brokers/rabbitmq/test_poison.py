"""Real daemons on RabbitMQ: a job that kills its process is buried after few deaths, and no other job is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis as redis_py
from daemon import Daemon
from harness import Process, job
from rabbit import RabbitNode
from raw_proxy import RawProxy
from waiting import eventually

pytestmark = pytest.mark.server


JOBS = """
    import os, pathlib, signal, time
    import goworkers_py as workers
    from goworkers_py.runtime.running import runs_with_clues

    runs_with_clues.GRACE_S = float(os.environ.get("GRACE", "1"))

    def note(word, text):
        with pathlib.Path("done").open("a") as done:
            done.write(f"{word} {text}\\n")

    @workers.job(queue="q")
    def work(number, seconds=0):
        note("began", number)
        time.sleep(0 if pathlib.Path("enough").exists() else seconds)
        note("ended", number)

    @workers.job(queue="q")
    def slow_once(number):
        first = not pathlib.Path("done").exists()
        note("began", number)
        while first and not pathlib.Path("gate").exists():
            time.sleep(0.01)
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


def push(me: Process, name: str, *arguments: list[object]) -> None:
    me.publish(*(job(f"{name}-{one[0]}", args=one, **{"class": name}) for one in arguments))


def done(folder: Path, word: str = "ended") -> list[str]:
    path = folder / "done"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split(" ", 1)[1] for line in lines if line.startswith(f"{word} ")]


def run_under_restart(start: Callable[[], Daemon], until: Callable[[], bool]) -> list[Daemon]:
    """Starts another daemon whenever one has died."""
    daemons = [start()]
    give_up_at = time.monotonic() + 120  # half a dozen starts
    while not until():
        assert time.monotonic() < give_up_at, "\n".join(one.output for one in daemons)
        if daemons[-1].process.poll() is not None:
            daemons.append(start())
        time.sleep(0.05)
    return daemons


@pytest.mark.timeout(150)
def test_a_job_that_kills_its_process_is_buried_and_the_jobs_beside_it_run(
    start: Start, rabbit_url: str, me: Process, tmp_path: Path
) -> None:
    push(me, "work", *([number, 0.05] for number in range(60)))
    push(me, "kill", [1])
    push(me, "work", *([number, 0.05] for number in range(60, 120)))
    daemons = run_under_restart(
        lambda: start(rabbit_url), lambda: bool(done(tmp_path, "died")) and len({*done(tmp_path)}) == 120
    )
    # That a busy process gives the job back counts as one of the deaths that are forgiven.
    assert LIMIT <= len(done(tmp_path, "killed")) <= FORGIVEN + LIMIT
    last = daemons[-1]
    told = last.says("poison: class=kill jid=kill-1")
    assert f"{LIMIT} processes died while they ran this job" in told
    push(me, "work", [120])
    assert eventually(lambda: "120" in done(tmp_path)), "the daemon does not go on"
    assert last.stop() == 0
    [dead] = me.consume(1, "pyworkers.dead")
    fields = json.loads(dead.payload)
    assert (fields["jid"], fields["error_class"]) == ("kill-1", "goworkers_py.PoisonPill")
    assert "recovered" not in fields
    assert done(tmp_path, "died") == ["kill-1"]


@pytest.mark.timeout(150)
def test_jobs_that_are_given_back_again_and_again_are_no_suspects(
    start: Start, rabbit_url: str, me: Process, tmp_path: Path
) -> None:
    push(me, "work", *([number, 0.3] for number in range(1_000)))  # more than six daemons run
    daemons: list[Daemon] = []
    for _ in range(6):  # each stop gives back the jobs that wait in the process
        daemons.append(start(rabbit_url).ready())
        began = len(done(tmp_path, "began"))
        assert eventually(lambda: len(done(tmp_path, "began")) > began)  # noqa: B023
        assert daemons[-1].stop() == 0
    (tmp_path / "enough").touch()
    daemons.append(start(rabbit_url))
    assert eventually(lambda: len({*done(tmp_path)}) == 1_000, within_s=30)
    assert daemons[-1].stop() == 0
    assert not [one.output for one in daemons if "suspect" in one.output or "poison" in one.output]
    assert me.broker.transport.consume(me.identity, [("pyworkers.dead", 1)], 1, 0.3) == []


@pytest.mark.timeout(150)
def test_a_job_that_outlasts_every_stop_is_no_suspect(
    start: Start, rabbit_url: str, me: Process, tmp_path: Path
) -> None:
    push(me, "work", [1, 30])
    for number in range(FORGIVEN + LIMIT + 2):
        daemon = start(rabbit_url, PYWORKERS_TIMEOUT="0.2").ready()
        assert eventually(lambda: len(done(tmp_path, "began")) > number)  # noqa: B023
        daemon.stop()
        assert "suspect" not in daemon.output, daemon.output


@pytest.mark.timeout(150)
def test_a_lost_connection_convicts_no_job_that_runs_alone_in_a_living_process(
    start: Start, rabbit_url: str, rabbit_server: RabbitNode, me: Process, tmp_path: Path
) -> None:
    clues = me.broker.death_clues
    assert clues is not None
    for _ in range(LIMIT - 1):
        clues.leave("name")
    record = {"v": 1, "count": LIMIT - 1, "since": time.time(), "mark": "name"}
    grace = 7  # longer than a process takes to beat after a lost connection
    with RawProxy(rabbit_server.port) as proxy:
        address = rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/")
        cut_off = start(address, GRACE=str(grace)).ready()
        me.publish(job("slow", args=[1], recovered=record, **{"class": "slow_once"}))
        assert eventually(lambda: clues.ran_alone("name") and done(tmp_path, "began"))
        other = start(rabbit_url, GRACE=str(grace)).ready()
        proxy.cut()  # the other one gets the job, and waits, mostly; or the clue is taken back before
        assert eventually(lambda: not clues.ran_alone("name"))
        # The first run goes on beyond the time of grace, until the second one has ended; or not, if that is to begin in
        # the same process, where it waits for the end of the first.
        eventually(lambda: done(tmp_path), within_s=grace + 5)
        (tmp_path / "gate").touch()
        assert eventually(lambda: len(done(tmp_path)) >= 2, within_s=60), cut_off.output + other.output
    assert "poison" not in cut_off.output + other.output
    assert eventually(lambda: clues.runs("name") == 0)


@pytest.mark.timeout(150)
def test_with_a_redis_beside_it_the_job_is_buried_among_the_dead_jobs_of_redis(
    start: Start, rabbit_url: str, redis_url: str, me: Process, tmp_path: Path
) -> None:
    push(me, "kill", [1])
    push(me, "work", *([number, 0.05] for number in range(40)))
    daemons = run_under_restart(
        lambda: start(rabbit_url, PYWORKERS_STORE=redis_url),
        lambda: bool(done(tmp_path, "died")) and len({*done(tmp_path)}) == 40,
    )
    assert len(done(tmp_path, "killed")) <= FORGIVEN + LIMIT
    daemons[-1].says("poison: class=kill jid=kill-1")
    assert daemons[-1].stop() == 0
    with closing(redis_py.Redis.from_url(redis_url)) as redis:
        [dead] = redis.zrange("dead", 0, -1)
    assert json.loads(dead)["error_class"] == "goworkers_py.PoisonPill"
