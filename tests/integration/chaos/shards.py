"""Chaos on three shards: one of them is killed and comes back, again and again, and so are workers, while jobs run.

    make chaos-shards MINUTES=10 [SEED=15]

Lost is a job that was pushed and never ran. A push that was refused may have happened, so it is not counted. A job
that ran twice must be explained by one of DOUBLING, see `doubles`. A shard that is killed comes back with all that it
had, so that explains nothing. Plain jobs, unique ones, retried ones, batches and jobs with a limit are pushed. Most of
the last move to another shard as they begin.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from daemon import Daemon
from harness_shards import ShardServers

from chaos.doubles import NOTES, account_for_doubles, await_runs, keep, read_runs
from chaos.monkeys import Chronicle
from goworkers_py.api.app import App
from goworkers_py.brokers.shards.shard import LONGEST_PAUSE_S
from goworkers_py.core.errors import WorkersError

WORKERS, THREADS, PRODUCERS = 2, 5, 2
WORKER_KILLED, SHARD_KILLED, SHARD_HUNG = "worker killed", "shard killed", "shard hung"
DOUBLING, HOLDING = (WORKER_KILLED,), (SHARD_KILLED, SHARD_HUNG)
JOBS = f"""{NOTES}
@workers.job("Plain", queue="q")
def plain(number):
    with noted(number):
        time.sleep(0.002)

@workers.job("Unique", queue="q", unique_for=600)
def unique(number):
    with noted(number):
        pass

@workers.job("Fails", queue="q")
def fails(number):
    with noted(number) as attempt:
        if attempt == 0:
            raise workers.RetryJob("once", delay=1)

@workers.job("Limited", queue="q", limits=[workers.limit("api", concurrent=3)])
def limited(number):
    with noted(number):
        time.sleep(0.002)

@workers.job("Member", queue="q")
def member(number):
    with noted(number):
        pass
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
                    app.enqueue("q", {2: "Fails", 3: "Limited", 4: "Limited"}.get(number % 25, "Plain"), [number])
            except WorkersError:
                self.refused += 1
            else:
                self.pushed.append(number)
        app.broker.close()


def _nothing(number: int) -> None: ...


class Chaos:
    def __init__(self, folder: Path, servers: ShardServers, seed: int) -> None:
        self.folder, self.servers = folder, servers
        self.random, self.chronicle = random.Random(seed), Chronicle()
        self.workers = [self._worker() for _ in range(WORKERS)]
        self._stop = threading.Event()
        self._producers = [Producer(servers.address, number * 10_000_000, self._stop) for number in range(PRODUCERS)]

    def _worker(self) -> Daemon:
        return Daemon(self.folder, self.servers.address, JOBS, "--queue", f"q={THREADS}")

    def run(self, seconds: float) -> None:
        for producer in self._producers:
            producer.start()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(self.random.uniform(1, 4))
            self._break_a_shard()
        self._stop.set()
        for producer in self._producers:
            producer.join()

    def _break_a_shard(self) -> None:
        server = self.random.choice(self.servers.servers)
        hangs = self.random.random() < 0.2
        with self.chronicle.note(SHARD_HUNG if hangs else SHARD_KILLED):
            (server.pause if hangs else server.kill)()
            if self.random.random() < 0.3:
                self._kill_a_worker()
            time.sleep(self.random.uniform(0.5, 5))
            (server.resume if hangs else server.start)()

    def _kill_a_worker(self) -> None:
        number = self.random.randrange(WORKERS)
        with self.chronicle.note(WORKER_KILLED, str(self.workers[number].process.pid)):
            self.workers[number].kill()
        self.workers[number] = self._worker()

    def account(self) -> bool:
        pushed = {number for producer in self._producers for number in producer.pushed}
        lost = await_runs(pushed, self.folder)
        codes = [worker.stop() for worker in self.workers]
        keep(self.chronicle.windows, self.folder)
        runs = read_runs(self.folder)
        doubles = account_for_doubles(runs, self.chronicle.windows, DOUBLING, HOLDING, LONGEST_PAUSE_S)
        refused = sum(producer.refused for producer in self._producers)
        print(f"{dict(self.chronicle.count())}, exit codes {codes}")
        print(f"pushed {len(pushed)}, refused {refused}, lost {len(lost)}", *sorted(lost)[:20])
        print(doubles, *doubles.complaints, sep="\n")
        return not (lost or doubles.complaints)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos.shards")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pyworkers-chaos-"))
    print(f"seed {options.seed}, {options.minutes:g} minutes; its files: {folder}", flush=True)
    with closing(ShardServers()) as servers, closing(Chaos(folder, servers, options.seed)) as chaos:
        chaos.run(60 * options.minutes)
        return 0 if chaos.account() else 1


if __name__ == "__main__":
    sys.exit(main())
