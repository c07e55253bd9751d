"""Chaos on three shards: one of them is killed and comes back, again and again, and so are workers, while jobs run.

cd tests/integration && PYTHONPATH=../support ../../.venv/bin/python -m chaos.shards SECONDS

Lost is a job that was pushed and never ran. A push that was refused may have happened, so it is not counted. A job may
run twice that was in progress at a kill. Plain jobs, unique ones, retried ones and batches are pushed.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

from daemon import Daemon
from harness_shards import ShardServers

from goworkers_py.api.app import App
from goworkers_py.core.errors import WorkersError

WORKERS, THREADS, PRODUCERS = 2, 5, 2
# After the last kill: a job of a killed worker waits for its lease, and a retry for its time.
SETTLED_WITHIN_S = 180.0
JOBS = """
import os, time, goworkers_py as workers

def note(number):
    file = os.open("runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{number}\\n".encode())
    os.close(file)

@workers.job("Plain", queue="q")
def plain(number):
    time.sleep(0.002)
    note(number)

@workers.job("Unique", queue="q", unique_for=600)
def unique(number):
    note(number)

@workers.job("Fails", queue="q")
def fails(number):
    if not workers.current_message().get("retry_count", -1) >= 0:
        raise workers.RetryJob("once", delay=1)
    note(number)

@workers.job("Member", queue="q")
def member(number):
    note(number)
"""


class Producer(threading.Thread):
    def __init__(self, address: str, first: int, stop: threading.Event) -> None:
        super().__init__()
        self._address, self._first, self._stop_at = address, first, stop
        self.pushed: list[int] = []
        self.refused = 0

    def run(self) -> None:
        app = App()
        app.configure(broker=self._address)
        unique = app.job("Unique", queue="q", unique_for=600)(_nothing)
        number = self._first
        while not self._stop_at.wait(0.002):
            number += 1
            try:
                if number % 10 == 0:
                    unique.enqueue(number)
                elif number % 50 == 1:
                    with app.batch("chaos"):
                        app.enqueue("q", "Member", [number])
                else:
                    app.enqueue("q", "Fails" if number % 25 == 2 else "Plain", [number])
            except WorkersError:
                self.refused += 1
            else:
                self.pushed.append(number)
        app.broker.close()


def _nothing(number: int) -> None: ...


def runs(folder: Path) -> Counter[int]:
    told = folder / "runs"
    return Counter(map(int, told.read_text().split())) if told.exists() else Counter()


def chaos(seconds: float, folder: Path) -> bool:
    stop, chance = threading.Event(), random.Random(15)
    with ExitStack() as stack:
        servers = stack.enter_context(closing(ShardServers()))
        daemons = [stack.enter_context(_worker(folder, servers.address)) for _ in range(WORKERS)]
        producers = [Producer(servers.address, number * 10_000_000, stop) for number in range(PRODUCERS)]
        for producer in producers:
            producer.start()
        kills = Counter[str]()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(chance.uniform(1, 4))
            server = chance.choice(servers.servers)
            hang = chance.random() < 0.2
            kills["hang" if hang else "shard"] += 1
            (server.pause if hang else server.kill)()
            if chance.random() < 0.3:
                kills["worker"] += 1
                number = chance.randrange(WORKERS)
                daemons[number].kill()
                daemons[number] = stack.enter_context(_worker(folder, servers.address))
            time.sleep(chance.uniform(0.5, 5))
            (server.resume if hang else server.start)()
        stop.set()
        for producer in producers:
            producer.join()
        pushed = {number for producer in producers for number in producer.pushed}
        ends = time.monotonic() + SETTLED_WITHIN_S
        while (lost := pushed - runs(folder).keys()) and time.monotonic() < ends:
            time.sleep(1)
        told = runs(folder)
        twice = sum(count > 1 for count in told.values())
        refused = sum(producer.refused for producer in producers)
        if lost:
            print(f"lost: {sorted(lost)[:20]}", *(daemon.output for daemon in daemons), sep="\n")
        print(f"pushed={len(pushed)} refused={refused} twice={twice} lost={len(lost)} kills={dict(kills)}")
        return not lost


def _worker(folder: Path, address: str) -> Daemon:
    return Daemon(folder, address, JOBS, "--queue", f"q={THREADS}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if chaos(float(sys.argv[1]), Path(folder)) else 1)
