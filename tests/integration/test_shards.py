"""A real daemon on three real servers, one of which is killed and comes back while jobs run."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import simplejson
from daemon import Daemon, pyworkers
from harness_shards import ShardServers
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.shards.placement import Placement
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.core.errors import PART_PAUSE_S, BrokerError

pytestmark = pytest.mark.timeout(120)

JOBS = """
import os, goworkers_py as workers

@workers.job("Note", queue="q")
def note(number):
    file = os.open("runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{number}\\n".encode())
    os.close(file)
"""


@pytest.fixture
def servers(server_program: str) -> Iterator[ShardServers]:
    with closing(ShardServers()) as servers:
        yield servers


class Producer:
    """Pushes one job after the other, until it is stopped. A push that was refused may have happened."""

    def __init__(self, address: str) -> None:
        self.pushed: list[int] = []
        self.refused = 0
        self.slowest_s = 0.0
        self._app = App()
        self._app.configure(broker=address)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.001):
            number += 1
            began = time.monotonic()
            try:
                self._app.enqueue("q", "Note", [number])
                self.pushed.append(number)
            except BrokerError:
                self.refused += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._app.broker.close()


def runs(folder: Path) -> Counter[int]:
    told = folder / "runs"
    return Counter(map(int, told.read_text().split())) if told.exists() else Counter()


def test_no_job_is_lost_and_no_other_shard_stalls_when_one_of_three_is_killed_and_comes_back(
    tmp_path: Path, servers: ShardServers
) -> None:
    with Daemon(tmp_path, servers.address, JOBS, "--queue", "q=5") as daemon:
        daemon.ready()
        producer = Producer(servers.address)
        try:
            assert eventually(lambda: len(runs(tmp_path)) > 300)
            for _ in range(2):
                servers.servers[1].kill()
                before = len(producer.pushed)
                assert eventually(lambda before=before: before + 300 <= len(producer.pushed))  # type: ignore[misc]
                reached = producer.pushed[-1]
                assert eventually(lambda reached=reached: runs(tmp_path)[reached] > 0, 10), "it stalls"  # type: ignore[misc]
                servers.servers[1].start()
                assert eventually(lambda: daemon.output.count("shard b serves again") > 0)
        finally:
            producer.stop()
        assert eventually(lambda: not set(producer.pushed) - set(runs(tmp_path))), "lost"
        assert producer.refused <= 2, "a push whose reply was lost is refused: one at each kill at most"
        assert daemon.output.count("cannot serve") <= 2
        assert daemon.stop() == 0
    doubled = sum(count > 1 for count in runs(tmp_path).values())
    assert doubled <= 100, f"{doubled} jobs ran twice: only those in progress at a kill may"


def test_the_commands_show_all_shards_as_one(tmp_path: Path, servers: ShardServers) -> None:
    app = App()
    app.configure(broker=servers.address)
    for number in range(30):
        app.enqueue("q", "Note", [number])
    app.broker.close()
    stats = pyworkers("stats", "--json", "--broker", servers.address, cwd=tmp_path)
    assert simplejson.loads(stats.stdout)["queues"][0]["size"] == 30
    listed = pyworkers("jobs", "q", "--broker", servers.address, cwd=tmp_path)
    assert listed.stdout.count("Note") == 30
    servers.servers[0].kill()
    doctor = pyworkers("doctor", "--broker", servers.address, cwd=tmp_path)
    assert "shard a is away" in doctor.stdout


ITERABLE = """
import goworkers_py as workers

@workers.job("Pages", queue="q")
def pages(count, *, cursor=None):
    for number in range(count):
        yield number
    print("read all", flush=True)
"""


def test_an_iterable_job_whose_cursor_is_away_waits_and_does_not_run_in_a_circle(
    tmp_path: Path, servers: ShardServers
) -> None:
    home = Placement(["a", "b", "c"]).home
    jid = next(jid for jid in (f"{number:024x}" for number in range(100)) if home(jid) == 1)
    app = App()
    app.configure(broker=servers.address)
    with closing(app.broker), Daemon(tmp_path, servers.address, ITERABLE, "--queue", "q=2") as daemon:
        daemon.ready()
        servers.servers[1].kill()
        began = time.monotonic()
        app.enqueue_with_options("q", "Pages", [3], EnqueueOptions(jid=jid))
        assert eventually(lambda: "its cursor cannot be read now" in daemon.output)
        time.sleep(2 * PART_PAUSE_S)
        told = daemon.output.count("its cursor cannot be read now")
        assert told <= 2 + (time.monotonic() - began) / PART_PAUSE_S
        servers.servers[1].start()
        assert eventually(lambda: "read all" in daemon.output)
        assert daemon.stop() == 0
