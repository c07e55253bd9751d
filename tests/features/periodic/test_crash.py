"""A slot of a periodic job fires exactly once, wherever a process is killed and however many there are."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import periodic_crash_points
import pytest
import redis as redis_py
from crash_points import lives
from daemon import Daemon
from periodic_crash_points import EVERY_S, firer
from servers import RedisServer
from waiting import eventually


def make_due(redis: redis_py.Redis, address: str, steps: range) -> None:
    """Registers the schedule of each step, as if that had been before its slot."""
    for step in steps:
        app, fires = firer(address, step)
        fires.run_once()
        app.use(app.config)  # closes its connections
        redis.hset(f"pyworkers:periodic:app-{step}:Periodic", "anchor", EVERY_S - 1)


def jobs_of(redis: redis_py.Redis, step: int) -> list[dict[str, object]]:
    return [json.loads(raw) for raw in redis.lrange(f"queue:periodic-{step}", 0, -1)]


def state_of(redis: redis_py.Redis, step: int) -> tuple[bytes | None, int]:
    """The last slot of the schedule, and the number of its firings in the history."""
    history = redis.lrange(f"pyworkers:periodic-history:app-{step}:Periodic", 0, -1)
    assert all(line.startswith(b"fired ") for line in history)
    return redis.hget(f"pyworkers:periodic:app-{step}:Periodic", "last"), len(history)


@pytest.mark.parametrize(("stride", "most"), [(53, 2_000), pytest.param(4, 2_000, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("untraced")
def test_a_firing_that_is_killed_at_any_line_fires_exactly_once(own: RedisServer, stride: int, most: int) -> None:
    redis = own.client()
    make_due(redis, own.url, range(1, most, stride))
    steps = [step for step, _ in lives(periodic_crash_points, own.url, stride)]
    assert steps[-1] < most
    fired = []
    for step in steps:
        jobs = jobs_of(redis, step)
        assert len(jobs) <= 1
        # The job, the last slot and the history are there together, or none of them is.
        assert state_of(redis, step) == ((str(float(EVERY_S)).encode(), 1) if jobs else (None, 0))
        fired += [step] if jobs else []
        app, fires = firer(own.url, step)  # another process
        fires.run_once()
        fires.run_once()
        [job] = jobs_of(redis, step)
        lock = redis.hget(f"pyworkers:lock:Periodic:periodic:app-{step}:Periodic", "jid")
        assert lock is not None
        assert lock.decode() == job["jid"]
        assert redis.hget(f"pyworkers:job:{job['jid']}", "state") == b"waiting"
        assert state_of(redis, step)[1] == 1
        app.use(app.config)
    print(f"{len(steps)} firings, of which {len(fired)} happened before the kill")
    assert 0 < len(fired) < len(steps)


JOBS = """
import goworkers_py as workers

@workers.periodic(every=1, catch_up="all", args=lambda slot: [slot.isoformat()], kwargs={"release": "RELEASE"})
@workers.job("Periodic", queue="ledger")
def periodic(slot, release): ...
"""


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("untraced")
def test_many_processes_that_are_killed_at_random_fire_each_slot_once_653_1013_554_371(
    own: RedisServer, tmp_path: Path, kills: int
) -> None:
    """asynq#653 #1013 #554 #371. The jobs stay in their queue, which no process works."""
    redis, seed = own.client(), random.randrange(10**6)
    print(f"seed {seed}")
    choice = random.Random(seed)
    with ExitStack() as stack:

        def start() -> Daemon:
            return stack.enter_context(Daemon(tmp_path, own.url, JOBS, "-q", "q"))

        daemons = [start() for _ in range(3)]
        for _ in range(kills):
            before = redis.llen("queue:ledger")
            assert eventually(lambda: redis.llen("queue:ledger") > before)  # noqa: B023
            victim = daemons.pop(choice.randrange(len(daemons)))
            victim.kill()
            daemons.append(start())
        before = redis.llen("queue:ledger")
        assert eventually(lambda: redis.llen("queue:ledger") > before + 2)
    check_slots(ledger(redis))


def ledger(redis: redis_py.Redis) -> list[tuple[float, str]]:
    """The slot and the release of each job, in the order of the pushes."""
    jobs = map(json.loads, reversed(redis.lrange("queue:ledger", 0, -1)))
    return [(datetime.fromisoformat(*job["args"]).timestamp(), job["kwargs"]["release"]) for job in jobs]


def check_slots(fired: list[tuple[float, str]]) -> None:
    """Each second from the first slot on fired once."""
    slots = [slot for slot, _ in fired]
    assert slots == [slots[0] + number for number in range(len(slots))]


@pytest.mark.parametrize("generations", [("9", "10"), ("", "")], ids=["generations", "none"])
@pytest.mark.timeout(120)
@pytest.mark.usefixtures("untraced")
def test_in_a_deploy_the_new_release_fires_and_old_processes_that_come_back_change_nothing(
    own: RedisServer, tmp_path: Path, generations: tuple[str, str]
) -> None:
    redis = own.client()
    with ExitStack() as stack:

        def start(release: str) -> Daemon:
            folder = tmp_path / release
            folder.mkdir(exist_ok=True)
            flags = ("-q", "q", "--generation", generations[release == "new"])
            return stack.enter_context(Daemon(folder, own.url, JOBS.replace("RELEASE", release), *flags))

        def fires(release: str, more: int = 2) -> bool:
            """Whether it fires as many slots from now on."""
            before = redis.llen("queue:ledger")
            return eventually(lambda: [one for _, one in ledger(redis)[before:]].count(release) >= more)

        old = [start("old") for _ in range(2)]
        assert fires("old")
        start("new").ready()
        assert fires("new")
        old.pop().kill()
        start("old").ready()
        assert fires("new", 4)
    fired = ledger(redis)
    check_slots(fired)
    releases = [release for _, release in fired]
    assert releases == sorted(releases, reverse=True)  # first those of "old", then those of "new"
