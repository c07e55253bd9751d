"""Several processes on one persistence: each task runs once, and none is lost with a process."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis as redis_py
from delaying import Queues
from servers import RedisServer
from waiting import eventually

import goworkers_py as workers
from goworkers_py.features.delays import keeper, shared_book

# A process with a delay queue. It writes a line to the file of the test for each run of a task, tells that it has
# started, and ends when its input does.
PROGRAM = """
import sys, time, os
import goworkers_py as workers
from goworkers_py.features.delays import keeper, shared_book

kind, place, ledger, sleeps = sys.argv[1:5]
shared_book.LEASE_S, keeper.LOOK_S = {lease_s}, {look_s}
kept = workers.RedisPersistence(place) if kind == "redis" else workers.SQLitePersistence(place)
file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def run(params):
    os.write(file, f"{{params}} begun {{os.getpid()}}\\n".encode())
    time.sleep(float(sleeps))
    os.write(file, f"{{params}} ended {{os.getpid()}}\\n".encode())

queue = workers.DelayQueue({{"remind": run}}, kept, tick=0.02)
queue.start()
for word in sys.argv[5:]:
    delay, _, params = word.partition("=")
    queue.push(float(delay), "remind", params, params)
print("started", flush=True)
sys.stdin.read()
queue.stop(20)
"""
LEASE_S, LOOK_S = 1.5, 0.2


class Processes:
    def __init__(self, kind: str, place: str, ledger: Path) -> None:
        self._kind, self._place, self._ledger = kind, place, ledger
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *pushes: str, sleeps: float = 0.0, lease_s: float = LEASE_S) -> subprocess.Popen[bytes]:
        program = PROGRAM.format(lease_s=lease_s, look_s=LOOK_S)
        words = [sys.executable, "-c", program, self._kind, self._place, str(self._ledger), str(sleeps), *pushes]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        return process

    def lines(self, word: str) -> list[str]:
        text = self._ledger.read_text() if self._ledger.exists() else ""
        return [line.split()[0] for line in text.splitlines() if line.split()[1] == word]

    def persistence(self) -> workers.RedisPersistence | workers.SQLitePersistence:
        return (
            workers.RedisPersistence(self._place) if self._kind == "redis" else workers.SQLitePersistence(self._place)
        )

    def left(self) -> list[str]:
        with closing(self.persistence()) as persistence:
            return sorted(task.id for task in persistence.list())

    def close(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.communicate()


@pytest.fixture(params=["redis", "sqlite"])
def processes(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> Iterator[Processes]:
    place = redis_url if request.param == "redis" else str(tmp_path / "delays.db")
    with closing(Processes(request.param, place, tmp_path / "ledger")) as made:
        yield made


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_book, "LEASE_S", LEASE_S)
    monkeypatch.setattr(keeper, "LOOK_S", LOOK_S)


def test_each_task_runs_once_in_one_of_the_processes(processes: Processes) -> None:
    with closing(Queues()) as queues:
        queue = queues.made({}, processes.persistence())
        queue.push_many([(0.5 + number / 500, "remind", f"{number}", f"{number}") for number in range(300)])
        for _ in range(3):
            processes.start(lease_s=60)  # on a busy machine a process may stand still for longer than short leases
        assert eventually(lambda: len(processes.lines("ended")) >= 300)
    assert eventually(lambda: processes.left() == [])
    assert sorted(processes.lines("begun"), key=int) == [str(number) for number in range(300)]


def test_the_tasks_of_a_killed_process_run_elsewhere(processes: Processes) -> None:
    first = processes.start("0=running", "0.5=waiting", "600=later", sleeps=60)
    assert eventually(lambda: "running" in processes.lines("begun"))  # and perhaps the other one too
    processes.start()
    first.kill()
    assert eventually(lambda: sorted(processes.lines("ended")) == ["running", "waiting"])
    assert eventually(lambda: processes.left() == ["later"])


def test_a_killed_process_alone_loses_nothing_and_the_next_one_keeps_its_times(processes: Processes) -> None:
    began = time.monotonic()
    processes.start("0=running", "4=soon", "3600=later", sleeps=60).kill()
    processes.start()
    assert eventually(lambda: processes.lines("ended").count("soon") == 1)
    assert time.monotonic() - began >= 4
    assert eventually(lambda: "running" in processes.lines("ended"))
    assert eventually(lambda: processes.left() == ["later"])


def test_a_process_that_was_stopped_for_longer_than_its_lease_repeats_nothing_that_another_ran(
    processes: Processes,
) -> None:
    stopped = processes.start("4=a", "4.1=b", "3600=c")  # none may be due before the process stands still
    stopped.send_signal(signal.SIGSTOP)
    processes.start()
    assert eventually(lambda: sorted(processes.lines("ended")) == ["a", "b"])
    assert eventually(lambda: processes.left() == ["c"])  # the ends are told after these lines
    time.sleep(LEASE_S)
    stopped.send_signal(signal.SIGCONT)
    time.sleep(4 * LOOK_S)
    assert sorted(processes.lines("begun")) == ["a", "b"]
    assert eventually(lambda: processes.left() == ["c"])


def test_a_process_that_was_stopped_alone_runs_at_once_what_became_due(processes: Processes) -> None:
    stopped = processes.start("4=a", "4.1=b", "3600=c")  # none may be due before the process stands still
    stopped.send_signal(signal.SIGSTOP)
    time.sleep(5)
    assert processes.lines("begun") == []
    stopped.send_signal(signal.SIGCONT)
    assert eventually(lambda: sorted(processes.lines("ended")) == ["a", "b"])
    assert eventually(lambda: processes.left() == ["c"])


def test_a_process_cancels_moves_and_replaces_the_tasks_of_another(processes: Processes, short_leases: None) -> None:
    # None of the first three may be due before it is changed, and no lease end during a run.
    processes.start("8=cancelled", "8=replaced", "8=postponed", "3600=early", lease_s=60)
    with closing(Queues()) as queues:
        queue = queues.started({}, processes.persistence())
        assert queue.cancel("cancelled")
        queue.push(8.5, "remind", "new", "replaced")
        assert queue.move("postponed", 3_600)
        assert queue.move("early", 0)
        queue.stop()
    assert eventually(lambda: sorted(processes.lines("ended")) == ["early", "new"])
    assert eventually(lambda: processes.left() == ["postponed"])


def test_a_task_whose_type_one_process_does_not_know_runs_in_another(processes: Processes, short_leases: None) -> None:
    with closing(Queues()) as queues:
        queue = queues.started({}, processes.persistence())
        queue.push(0, "remind", "a", "a")
        assert eventually(lambda: [task.held != "" for task in queue.pending()] == [True])
        processes.start(lease_s=60)  # else the task may be another's again while a busy machine runs it
        assert eventually(lambda: processes.lines("ended") == ["a"])
        assert eventually(lambda: queue.pending() == [])  # it sees that another one has run it


def test_an_outage_of_the_server_loses_and_repeats_nothing(own_redis: RedisServer, short_leases: None) -> None:
    ran: list[str] = []
    with closing(Queues()) as queues:
        queue = queues.started({"remind": ran.append}, workers.RedisPersistence(own_redis.url))
        queue.push_many([(1 + number / 100, "remind", f"{number}") for number in range(50)])
        own_redis.kill()
        with pytest.raises(workers.BrokerError):
            queue.push(0, "remind", "refused")
        time.sleep(1.5)
        own_redis.start()
        assert eventually(lambda: len(ran) >= 50)
        assert eventually(lambda: len(queue) == 0)
        assert sorted(ran, key=int) == [str(number) for number in range(50)]


def test_a_push_of_another_process_comes_into_this_wheel(
    redis_url: str, short_leases: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def persistence() -> workers.RedisPersistence:
        return workers.RedisPersistence(redis_url)

    ran: list[str] = []
    with closing(Queues()) as queues:
        queue = queues.started({"remind": ran.append}, persistence())
        other = queues.made({}, persistence())
        other.push(0.6, "remind", "a", "a")
        other.push(3_600, "remind", "b", "b")
        assert eventually(lambda: ran == ["a"])
        assert eventually(lambda: not queue.pending())


def test_a_stop_keeps_the_claim_on_the_task_that_still_runs(redis_url: str) -> None:
    began, go_on = threading.Event(), threading.Event()

    def run(params: object) -> None:
        began.set()
        assert go_on.wait(20)

    with closing(Queues()) as queues, closing(workers.RedisPersistence(redis_url)) as other:
        queue = queues.started({"remind": run}, workers.RedisPersistence(redis_url))
        queue.push(0, "remind", None, "a")
        assert began.wait(20)
        ending = threading.Thread(target=queue.stop, args=(20,))
        ending.start()
        assert eventually(lambda: not any(one.name == "delay dispatcher" for one in threading.enumerate()))
        assert other.claims is not None
        other.claims.beat("other", 60)
        assert not eventually(lambda: other.claims and other.claims.take("other", "x", ["a"], time.time() + 60), 0.3)
        go_on.set()
        ending.join(20)
        assert list(other.list()) == []


def test_a_record_of_a_newer_release_is_neither_run_nor_changed(
    redis: redis_py.Redis, redis_url: str, short_leases: None
) -> None:
    newer = b'{"v":2,"id":"a","due":1,"what":"ever"}'
    ran: list[str] = []
    with closing(Queues()) as queues:
        queue = queues.started({"remind": ran.append}, workers.RedisPersistence(redis_url))
        queue.push(4, "remind", "a", "a")  # not due before the next line
        redis.hset("pyworkers:delay-tasks:default", "a", newer)  # by another process
        assert eventually(lambda: ["has version 2" in task.held for task in queue.pending()] == [True])
        assert queue.stop(20)
    assert ran == []
    assert redis.hget("pyworkers:delay-tasks:default", "a") == newer
    assert redis.hlen("pyworkers:delay-claims:default") == 0
