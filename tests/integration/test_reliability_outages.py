"""Outages of the server: what a real process says of each, how soon it works again, and what it costs meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import redis as redis_py
from apps import in_progress
from daemon import Daemon
from fleet import Fleet
from proxy import Proxy
from servers import RedisServer, free_port
from waiting import eventually

from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.runtime import outage as outages

BACK_WITHIN_S = 20  # the longest pause between two tries, and a pause of the machine
BEGINS, ENDS = "Redis cannot serve", "Redis serves again"

pytestmark = pytest.mark.timeout(120)


class Place(NamedTuple):
    server: RedisServer
    redis: redis_py.Redis
    proxy: Proxy


@pytest.fixture
def place(own_redis: RedisServer) -> Iterator[Place]:
    with Proxy(own_redis.port) as proxy:
        yield Place(own_redis, own_redis.client(), proxy)


@pytest.fixture
def fleet(tmp_path: Path, place: Place) -> Iterator[Fleet]:
    with Fleet(tmp_path, place.proxy.url, place.redis) as fleet:
        yield fleet


# --- what can happen: each lasts as long as its `with`, whose end is when the server serves again


@contextmanager
def restarted(place: Place) -> Iterator[None]:
    place.server.stop()
    yield
    place.server.start()


@contextmanager
def killed(place: Place) -> Iterator[None]:
    place.server.kill()
    yield
    place.server.start()


@contextmanager
def frozen(place: Place) -> Iterator[None]:
    place.server.pause()
    yield
    place.server.resume()


@contextmanager
def clients_killed(place: Place) -> Iterator[None]:
    place.redis.client_kill_filter(_type="normal", skipme=True)
    yield


@contextmanager
def packets_swallowed(place: Place) -> Iterator[None]:
    place.proxy.swallow()
    yield
    place.proxy.pass_through()


@contextmanager
def half_open(place: Place) -> Iterator[None]:
    """As before, but connections that have gone silent stay so: nobody says that they have ended."""
    place.proxy.swallow()
    yield
    with place.proxy._lock:
        place.proxy._faults.clear()


@contextmanager
def scripts_flushed(place: Place) -> Iterator[None]:
    place.redis.script_flush()
    yield


@contextmanager
def read_only(place: Place) -> Iterator[None]:
    place.redis.replicaof("127.0.0.1", free_port())
    yield
    place.redis.replicaof("NO", "ONE")


@contextmanager
def primary_down(place: Place) -> Iterator[None]:
    with configured(place, "replica-serve-stale-data", "no"), read_only(place):
        yield


@contextmanager
def configured(place: Place, name: str, value: str) -> Iterator[None]:
    before = place.redis.config_get(name)[name]
    place.redis.config_set(name, value)
    yield
    place.redis.config_set(name, before)


def without_replicas(place: Place) -> AbstractContextManager[None]:
    return configured(place, "min-replicas-to-write", "1")


def full(place: Place) -> AbstractContextManager[None]:
    return configured(place, "maxmemory", "1")


@contextmanager
def busy(place: Place) -> Iterator[None]:
    place.redis.config_set("lua-time-limit", 100)
    other = place.server.client()

    def run_for_ever() -> None:
        with suppress(redis_py.ResponseError):
            other.eval("while true do end", 0)

    script = threading.Thread(target=run_for_ever)
    script.start()
    yield
    place.redis.script_kill()
    script.join()


@contextmanager
def loading(place: Place) -> Iterator[None]:
    """It lasts for as long as the data takes."""
    place.redis.mset({f"ballast{number}": "" for number in range(3_000)})
    place.server.stop()
    place.server._options["key-load-delay"] = "1000"  # microseconds a key
    yield
    place.server.start()


Outage = Callable[[Place], AbstractContextManager[None]]
# With how long each lasts.
OUTAGES: dict[Outage, float] = {
    restarted: 2,
    killed: 2,
    frozen: 8,
    clients_killed: 0,
    packets_swallowed: 8,
    half_open: 8,
    scripts_flushed: 0,
    read_only: 3,
    primary_down: 3,
    without_replicas: 3,
    full: 3,
    busy: 3,
    loading: 1,
}


@pytest.mark.parametrize(
    "outage",
    [
        pytest.param(outage, id=outage.__name__, marks=[] if outage is killed else pytest.mark.slow)
        for outage in OUTAGES
    ],
)
def test_after_an_outage_all_queues_work_at_full_concurrency_and_no_job_has_run_twice(
    fleet: Fleet, place: Place, outage: Outage
) -> None:
    working, idle = fleet.start("-q", "a=5", "-q", "b=5").ready(), fleet.start("-q", "c=5", "-q", "d=5").ready()
    for queue in "ab":
        for number in range(400):
            fleet.push(f"{queue}{number}", "Short", 0.03, queue=queue)
        fleet.push(f"{queue}-long", "Gated", "gate", queue=queue, first=True)
    fleet.await_run("began", "a-long")
    fleet.await_run("began", "b-long")
    with outage(place):
        time.sleep(OUTAGES[outage] / 2)
        fleet.open("gate")
        fleet.await_run("ended", "a-long")
        fleet.await_run("ended", "b-long")
        time.sleep(OUTAGES[outage] / 2)
    _assert_full_concurrency(fleet, "abcd")
    assert eventually(lambda: len(fleet.count("began")) == 802 and not in_progress(place.redis)), fleet.told()
    assert set(fleet.count("began").values()) == {1}
    assert not place.redis.exists("queue:a", "queue:b", "retry", "dead")
    _assert_one_pair_of_lines(working)
    _assert_one_pair_of_lines(idle)


def _assert_full_concurrency(fleet: Fleet, queues: str) -> None:
    """As many jobs as there are threads run at the same time, in every queue, soon after the server's return."""
    returned_at = time.monotonic()
    for queue in queues:
        for number in range(5):
            fleet.push(f"{queue}-meeting{number}", "Meeting", queue, 5, queue=queue, first=True)
    assert eventually(lambda: len(fleet.of("met")) == 5 * len(queues), 30), fleet.told()
    assert max(run.at for run in fleet.of("met")) - returned_at < BACK_WITHIN_S


def _assert_one_pair_of_lines(daemon: Daemon) -> None:
    assert eventually(lambda: daemon.output.count(BEGINS) == daemon.output.count(ENDS)), daemon.output
    assert daemon.output.count(BEGINS) <= 1, daemon.output
    assert daemon.output.count(" ERROR: ") == daemon.output.count(BEGINS), daemon.output


def test_a_time_out_that_began_before_the_servers_return_is_no_outage_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage, early, late = outages.Outage("Redis"), BrokerUnavailable("timed out"), BrokerUnavailable("timed out")
    early.began = time.monotonic()
    outage.failed("fetcher", BrokerUnavailable("reset"))
    outage.recovered("fetcher")
    outage.failed("settler", early)
    outage.recovered("settler")
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    outage.failed("settler", early)
    late.began = time.monotonic()
    outage.failed("settler", late)
    outage.recovered("settler")
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING", "ERROR", "WARNING"]


def test_a_process_that_is_started_without_a_server_waits_for_it(fleet: Fleet, place: Place) -> None:
    place.server.stop()
    daemon = fleet.start("-q", "a=5", "-q", "b=5")
    daemon.says(BEGINS)
    time.sleep(4)
    place.server.start()
    _assert_full_concurrency(fleet, "ab")
    _assert_one_pair_of_lines(daemon)
    assert daemon.output.count(BEGINS) == 1
    assert "Traceback" not in daemon.output
    assert daemon.stop() == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc tells what a process has used")
@pytest.mark.parametrize("outage", [killed, half_open], ids=lambda outage: outage.__name__)
def test_200_threads_hardly_use_the_processor_during_an_outage(fleet: Fleet, place: Place, outage: Outage) -> None:
    flags = [word for number in range(8) for word in ("-q", f"queue{number}=25")]
    daemon = fleet.start(*flags).ready()
    with outage(place):
        daemon.says(BEGINS)
        time.sleep(1)
        before = _cpu_s(daemon.process.pid)
        time.sleep(10)
        used_s = _cpu_s(daemon.process.pid) - before
    assert used_s < 0.02 * 10


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
