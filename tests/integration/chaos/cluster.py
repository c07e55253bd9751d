"""Chaos on Redis Cluster: masters and daemons are killed and paused, slots move, and every job is accounted for.

    make chaos-cluster MINUTES=10 [SEED=1]

Three namespaces, each in a slot of its own, are the partitions of three daemons. A pusher for each namespace notes a
job when `WAIT 1` says that a replica has it. Jobs note their runs. One in ten fails once and is retried.

At the end all daemons run in peace, until each noted job has run. A job that did not is lost. A job that ran twice must
be explained by one of DOUBLING, see `doubles`. A slot that moves, a failover by hand and a lost connection double
nothing, so they explain nothing.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import redis
from apps import job
from cluster import Cluster
from redis.backoff import NoBackoff
from redis.exceptions import MovedError
from redis.retry import Retry

from chaos.cluster_monkeys import DOUBLING, HOLDING, NAMESPACES, ClusterMonkey, DaemonMonkey
from chaos.doubles import Doubles, account_for_doubles, await_runs, keep, read_runs
from chaos.judge import RECONNECT_S
from chaos.monkeys import Chronicle
from goworkers_py.config.cluster_address import ClusterAddress

WAIT_MS = 500


class Pusher(threading.Thread):
    """Raw commands: `WAIT` tells of the pushes of its own connection."""

    def __init__(self, cluster: Cluster, namespace: str, numbers: Iterator[int], seed: int) -> None:
        super().__init__(name=f"pusher {namespace}")
        self.stopping = threading.Event()
        self.confirmed: set[int] = set()
        self.in_doubt = 0
        self._random = random.Random(f"{seed}:{namespace}")
        self._prefix, self._numbers = ClusterAddress.of(cluster.url(namespace)).tagged_namespace, numbers
        self._clients = {
            node.port: redis.Redis(port=node.port, socket_timeout=2, retry=Retry(NoBackoff(), 0))
            for node in cluster.nodes
        }

    def run(self) -> None:
        ports = itertools.cycle(self._clients)
        port = next(ports)
        while not self.stopping.wait(0.01):
            number = next(self._numbers)
            try:
                if self._push(self._clients[port], number):
                    self.confirmed.add(number)
                    continue
            except MovedError as error:
                port = error.port
            except redis.RedisError:
                port = next(ports)
            self.in_doubt += 1
        for client in self._clients.values():
            client.close()

    def _push(self, client: redis.Redis, number: int) -> bool:
        seconds = self._random.choice((0, 0, 0.01, 0.2))
        payload = job("Work", number, seconds, jid=f"job{number:07}", created_at=time.time())
        with client.pipeline(transaction=False) as pipeline:
            pipeline.sadd(f"{self._prefix}:queues", "q")
            pipeline.lpush(f"{self._prefix}:queue:q", payload)
            return bool(pipeline.wait(1, WAIT_MS).execute()[-1] >= 1)


@dataclass
class Account:
    confirmed: int
    in_doubt: int
    lost: list[int]
    doubles: Doubles
    complaints: list[str]
    deeds: Counter[str]

    @property
    def fine(self) -> bool:
        return not (self.lost or self.doubles.complaints or self.complaints)

    def __str__(self) -> str:
        deeds = ", ".join(f"{deed} {count}" for deed, count in sorted(self.deeds.items()))
        return "\n".join([
            f"{deeds}\nconfirmed {self.confirmed}, not confirmed {self.in_doubt}, lost {len(self.lost)}",
            str(self.doubles), *map("lost: job {}".format, self.lost[:20]), *self.doubles.complaints, *self.complaints,
        ])  # fmt: skip


def chaos(seconds: float, seed: int, folder: Path) -> Account:
    chronicle, numbers = Chronicle(), itertools.count(1)
    with Cluster() as cluster, closing(DaemonMonkey(folder, cluster, seed, chronicle)) as daemons:
        pushers = [Pusher(cluster, namespace, numbers, seed) for namespace in NAMESPACES]
        monkeys = [ClusterMonkey(cluster, seed, chronicle), daemons]
        threads = [*pushers, *monkeys]
        for thread in threads:
            thread.start()
        daemons.stopping.wait(seconds)
        for thread in reversed(threads):
            thread.stopping.set()
            thread.join()
        confirmed = {number for pusher in pushers for number in pusher.confirmed}
        lost = await_runs(confirmed, folder)
        codes = [daemon.stop() for daemon in daemons.daemons]
    keep(chronicle.windows, folder)
    runs = read_runs(folder)
    return Account(
        len(confirmed), sum(pusher.in_doubt for pusher in pushers),
        sorted(lost),
        account_for_doubles(runs, chronicle.windows, DOUBLING, HOLDING, RECONNECT_S),
        [*(f"{monkey.name}: {monkey.error!r}" for monkey in monkeys if monkey.error), *faults(folder, codes)],
        chronicle.count(),
    )  # fmt: skip


def faults(folder: Path, codes: Iterable[int]) -> list[str]:
    lines = [line for log in folder.glob("daemon-*.log") for line in log.read_text("utf-8", "replace").splitlines()]
    wrong = [line for line in lines if " CRITICAL: " in line or line.startswith("Traceback")]
    return [*wrong, *(f"a daemon ended with {code}" for code in codes if code)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos.cluster")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pyworkers-chaos-"))
    print(f"seed {options.seed}, {options.minutes:g} minutes; its files: {folder}", flush=True)
    account = chaos(60 * options.minutes, options.seed, folder)
    print(account)
    return 0 if account.fine else 1


if __name__ == "__main__":
    sys.exit(main())
