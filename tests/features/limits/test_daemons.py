"""Limits over several real processes, of which some are killed. The jobs themselves write down when they run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import hasty as hasty_module
import pytest
from apps import own_app, working
from daemon import Daemon, environment
from hasty import SHORT, hasty
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

from goworkers_py.admin.places import PARKED, RETRIES, waiting_in
from goworkers_py.api.app import App
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import LimitTimeout
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import Slot

JOBS = """
import os
import time

import goworkers_py as workers

stripe = workers.limit("stripe", concurrent=3)
order = workers.limit("order", concurrent=1, by=lambda key, *_: key)
LOG = os.environ["PYWORKERS_TEST_LOG"]


def note(what, key, number):
    # One write to a file that is open for appending: the lines of all processes stand whole, in the order of writes.
    with open(LOG, "ab", buffering=0) as log:
        log.write(f"{what} {key} {number} {os.getpid()}\\n".encode())


def run(key, number, seconds):
    note("begin", key, number)
    time.sleep(seconds)
    note("end", key, number)


@workers.job("Charge", queue="q", limits=[stripe])
def charge(key, number):
    run(key, number, 0.01)


@workers.job("Event", queue="q", limits=[order])
def event(key, number):
    run(key, number, 0.002)
"""
PROCESSES = 4
# The others find a killed process dead by its pid. The leases are long, so that nobody declares a process dead that
# stands still on a busy machine: its jobs would go on beside those that took their places.
STEADY = {**SHORT, "timing.lease_s": 60, "timing.lease_fresh_s": 50}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "runs.log"


@pytest.fixture
def app(own_redis: RedisServer) -> Iterator[App]:
    with own_app(own_redis.url) as app:
        yield app


@contextmanager
def daemons(count: int, folder: Path, url: str, log: Path) -> Iterator[list[Daemon]]:
    changes = {"PYWORKERS_TEST_LOG": str(log)}
    with ExitStack() as stack:
        made = [
            stack.enter_context(Daemon(folder, url, JOBS, "-q", "q=5", prefix=hasty(STEADY), changes=changes))
            for _ in range(count)
        ]
        yield made


def has_ended(log: Path) -> set[int]:
    """The numbers of the jobs that have run to their end."""
    return {number for what, _, number, _ in runs(log) if what == "end"}


def is_done(app: App) -> bool:
    rest = sum(app.inspector.count(place) for place in (waiting_in("q"), PARKED, RETRIES))
    return rest == 0 and not any(True for _ in app.inspector.in_progress())


def runs(log: Path) -> list[tuple[str, str, int, int]]:
    text = log.read_text() if log.exists() else ""
    # The last line may still be on its way into the file.
    lines = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
    return [(what, key, int(number), int(pid)) for what, key, number, pid in lines]


def most_at_once(told: list[tuple[str, str, int, int]]) -> Counter[str]:
    """By key. A run of a process that was killed ends at the line `dead`."""
    running: dict[str, set[tuple[int, int]]] = defaultdict(set)
    dead: set[int] = set()
    most: Counter[str] = Counter()
    for what, key, number, pid in told:
        if pid in dead:
            continue
        if what == "dead":
            dead.add(pid)
            for one in running.values():
                one -= {run for run in one if run[1] == pid}
        elif what == "begin":
            running[key].add((number, pid))
        else:
            running[key].discard((number, pid))
        most[key] = max(most[key], len(running[key]))
    return most


def kill(daemon: Daemon, log: Path) -> None:
    # The line comes first: on a busy machine another process may recover the jobs before this one goes on.
    with log.open("ab", buffering=0) as file:
        file.write(f"dead - 0 {daemon.process.pid}\n".encode())
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()


@pytest.mark.timeout(300)
def test_complaints_609_and_542_a_limit_holds_over_processes_that_are_killed(
    app: App, own_redis: RedisServer, tmp_path: Path, log: Path
) -> None:
    app.enqueue_bulk("q", "Charge", [["all", number] for number in range(400)])  # as a program in Ruby does
    with daemons(PROCESSES, tmp_path, own_redis.url, log) as made:
        for number, daemon in enumerate(made[:2], 1):
            assert eventually(lambda number=number: len(runs(log)) > 200 * number, 30)  # type: ignore[misc]
            kill(daemon, log)
        # Jobs move from a place to another between looks at them: all may seem empty while the last ones have to run.
        assert eventually(lambda: has_ended(log) == set(range(400)), 60)
        assert eventually(lambda: is_done(app) and not list(app.inspector.slots("stripe")), 60)
    told = runs(log)
    assert has_ended(log) == set(range(400))
    assert most_at_once(told)["all"] <= 3


@pytest.mark.timeout(300)
def test_complaints_429_and_1090_four_processes_run_each_key_in_order(
    app: App, own_redis: RedisServer, tmp_path: Path, log: Path
) -> None:
    limit = app.limit("order", concurrent=1, by=lambda key, *_: key)

    @app.job("Event", queue="q", limits=[limit])
    def event(key: str, number: int) -> None: ...

    with daemons(PROCESSES, tmp_path, own_redis.url, log) as made:
        for start in range(0, 400, 40):
            event.enqueue_bulk([[f"k{number % 7}", number] for number in range(start, start + 40)])
        assert eventually(lambda: len(runs(log)) > 300, 30)
        kill(made[0], log)
        assert eventually(lambda: has_ended(log) == set(range(400)), 60)
        assert eventually(lambda: is_done(app) and not list(app.inspector.slots("order")), 60)
    told = runs(log)
    assert set(most_at_once(told).values()) <= {0, 1}
    for key in {key for _, key, _, _ in told} - {"-"}:
        ended = [number for what, of, number, _ in told if what == "end" and of == key]
        assert [*dict.fromkeys(ended)] == [number for number in range(400) if f"k{number % 7}" == key]


def test_jobs_of_two_queues_take_turns_though_each_is_worked_by_a_process_of_its_own(own_redis: RedisServer) -> None:
    ran = list[int]()

    def run(number: int) -> None:
        ran.append(number)
        time.sleep(0.05)

    with ExitStack() as stack:
        apps = [stack.enter_context(own_app(own_redis.url, QueueConfig(queue, 1))) for queue in ("q1", "q2")]
        jobs = [
            app.job(f"Job{number}", queue=f"q{number}", limits=[app.limit("one", concurrent=1)])(run)
            for number, app in enumerate(apps, 1)
        ]
        for number in range(20):
            jobs[number % 2].enqueue(number)
        for app in apps:
            stack.enter_context(working(app))
        # By a look each five seconds, the last one would run after a minute and a half.
        assert eventually(lambda: len(ran) == 20)
    assert ran == list(range(20))


# --- an outage that is longer than all leases

TIMES = {
    "timing.lease_s": 2,
    "timing.lease_fresh_s": 1.5,
    "timing.beat_every_s": 0.3,
    "timing.recover_every_s": 0.3,
    "timing.steady_for_s": 60.0,  # no process dies, however busy the machine is
}
HOLDING = """
import os
import time

import goworkers_py as workers

pair = workers.limit("pair", concurrent=2)
door = workers.limit("door", concurrent=1)


def note(what, name):
    with open(os.environ["PYWORKERS_TEST_LOG"], "ab", buffering=0) as log:
        log.write(f"{what} {name}\\n".encode())


def hold(name):
    note("begin", name)
    while not os.path.exists(os.environ["PYWORKERS_TEST_LOG"] + ".end"):
        time.sleep(0.02)
    note("end", name)


@workers.job("Hold", queue="q", limits=[pair])
def held(number):
    hold("pair")
"""
BLOCK = """
import json
import sys

sys.path[:0] = [sys.argv[1], "."]
from hasty import apply

apply({"constants": json.loads(sys.argv[3]), "machine": ""})
import goworkers_py as workers
import jobs

workers.configure(broker=sys.argv[2])
with jobs.door.acquire():
    jobs.hold("door")
"""


@contextmanager
def a_block(folder: Path, url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs no jobs."""
    words = [sys.executable, "-c", BLOCK, str(Path(hasty_module.__file__).parent), url, json.dumps(TIMES)]
    program = subprocess.Popen(words, cwd=folder, env=environment(PYWORKERS_TEST_LOG=str(log)))
    try:
        yield program
    finally:
        program.kill()
        program.wait()


@contextmanager
def cut_off(server: RedisServer, proxy: Proxy) -> Iterator[None]:
    """At the end the server serves again, and nobody has come back yet."""
    proxy.refuse()
    redis, slots = server.client(), (Slot("pair"), Slot("door"))
    with own_app(server.url) as app:
        owners = {holder.owner for slot in slots for holder in app.broker.require_part(Limits).holders(slot)}
    leases = [Keys().lease(owner) for owner in owners]
    assert eventually(lambda: not redis.exists(*leases))
    yield
    proxy.pass_through()
    assert eventually(lambda: redis.exists(*leases) == len(leases))


@contextmanager
def stopped(server: RedisServer, proxy: Proxy) -> Iterator[None]:
    server.pause()
    time.sleep(TIMES["timing.lease_s"] + 0.5)
    server.resume()
    yield


@pytest.mark.parametrize("outage", [cut_off, stopped])
def test_an_outage_that_is_longer_than_leases_lets_no_more_run_than_allowed(
    own_redis: RedisServer, app: App, tmp_path: Path, log: Path, outage: Callable[..., AbstractContextManager[None]]
) -> None:
    def begun(what: str = "begin") -> list[str]:
        lines = log.read_text().splitlines() if log.exists() else []
        return sorted(line.split()[1] for line in lines if line.startswith(what))

    def look() -> list[int]:
        """At each moment, not only when a daemon looks."""
        limits = app.broker.require_part(Limits)
        return [limits.look(slot, ["q"]).let_go for slot in (Slot("pair"), Slot("door"))]

    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(own_redis.port))
        for _ in range(2):
            changes = {"PYWORKERS_TEST_LOG": str(log)}
            flags = "-q", "q=3"
            stack.enter_context(Daemon(tmp_path, proxy.url, HOLDING, *flags, prefix=hasty(TIMES), changes=changes))
        program = stack.enter_context(a_block(tmp_path, proxy.url, log))
        for number in range(5):
            app.enqueue("q", "Hold", [number])
        assert eventually(lambda: begun() == ["door", "pair", "pair"] and app.inspector.count(PARKED) == 3)
        with outage(own_redis, proxy):
            assert [look() for _ in range(3)] == [[0, 0]] * 3
            with pytest.raises(LimitTimeout), app.limit("door", concurrent=1).acquire(timeout=0.2):
                pass
        assert look() == [0, 0]
        assert begun() == ["door", "pair", "pair"]
        log.with_name(log.name + ".end").touch()
        assert eventually(lambda: begun("end") == ["door"] + ["pair"] * 5)
        assert program.wait(20) == 0
        assert eventually(lambda: is_done(app))
    at_once = most = 0
    for line in log.read_text().splitlines():
        if line.endswith("pair"):
            at_once += 1 if line.startswith("begin") else -1
            most = max(most, at_once)
    assert most == 2
