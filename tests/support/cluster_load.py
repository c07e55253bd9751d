"""How partitions share the nodes of a Redis Cluster: the processor time of each node for a job, while the same jobs are
pushed to one, two and three partitions, and run. Each partition has a namespace of its own, on a node of its own.

PYTHONPATH=tests/support python -m cluster_load
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster import MASTERS, Cluster
from waiting import eventually

from goworkers_py import App

# In this order their slots are on the first, the second and the third of three masters.
NAMESPACES = ("mail", "search", "billing")
JOBS, ROUNDS = 300_000, 5
ONE_AT_A_TIME = 0.1  # of the jobs
SLICE = 1_000
THREADS = 10
MODULE = """
import goworkers_py as workers

@workers.job("Noop")
def noop():
    pass
"""


@dataclass
class Load:
    """The work of the nodes for so many jobs."""

    jobs: int
    took_s: float = 0.0
    nodes_s: Sequence[float] = ()  # of the processor, of each node

    @property
    def shares(self) -> list[float]:
        return [one / sum(self.nodes_s) for one in self.nodes_s]

    @property
    def us_of_busiest(self) -> float:
        return 1e6 * max(self.nodes_s) / self.jobs


@contextmanager
def load_of(cluster: Cluster, jobs: int) -> Iterator[Load]:
    load, before, began = Load(jobs), used_s(cluster), time.monotonic()
    yield load
    load.took_s = time.monotonic() - began
    load.nodes_s = [after - one for after, one in zip(used_s(cluster), before, strict=True)]


def used_s(cluster: Cluster) -> list[float]:
    told = [node.redis.info("cpu") for node in cluster.nodes[:MASTERS]]
    return [cpu["used_cpu_user"] + cpu["used_cpu_sys"] for cpu in told]


class Fleet:
    def __init__(self, folder: Path, cluster: Cluster, namespaces: Sequence[str]) -> None:
        self._folder, self._cluster, self._names = folder, cluster, namespaces
        main, *others = namespaces
        sections = [f"[pyworkers]\nbroker = {cluster.url(main)}\n[queue:{main}]\nconcurrency = {THREADS}"]
        sections += [f"[partition:{name}]\nbroker = {cluster.url(name)}\nqueues = {name} {THREADS}" for name in others]
        (folder / "conf.ini").write_text("\n".join(sections))
        (folder / "noops.py").write_text(MODULE)
        app = App()
        app.configure(folder / "conf.ini")
        self._clients = {main: app, **{name: app.partition(name) for name in others}}

    def push_one_by_one(self, jobs: int) -> Load:
        with load_of(self._cluster, jobs) as load:
            for number in range(jobs):
                name = self._names[number % len(self._names)]
                self._clients[name].enqueue(name, "Noop", [])
        return load

    def push(self, jobs: int) -> Load:
        with load_of(self._cluster, jobs) as load:
            for start in range(0, jobs, SLICE):
                name = self._names[start // SLICE % len(self._names)]
                self._clients[name].enqueue_bulk(name, "Noop", [[]] * min(SLICE, jobs - start))
        return load

    def run(self, jobs: int) -> Load:
        """Of `jobs` that wait."""
        with load_of(self._cluster, jobs) as load:
            command = [sys.executable, "-m", "goworkers_py.cli", "run", "-c", "conf.ini", "-r", "noops"]
            worker = subprocess.Popen(command, cwd=self._folder, stderr=subprocess.DEVNULL)
            try:
                assert eventually(lambda: not self._waiting(), 120)
            finally:
                worker.terminate()
                worker.wait()
        return load

    def _waiting(self) -> int:
        return sum(self._cluster.master_of(name).redis.llen(f"{{{name}}}:queue:{name}") for name in self._names)


def measure(cluster: Cluster, namespaces: Sequence[str], jobs: int) -> dict[str, Load]:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), cluster, namespaces)
        singles = int(jobs * ONE_AT_A_TIME)
        loads = {"pushed one at a time": fleet.push_one_by_one(singles), "pushed in bulk": fleet.push(jobs)}
        return {**loads, "run": fleet.run(jobs + singles)}


def main(jobs: int = JOBS, rounds: int = ROUNDS) -> None:
    with Cluster(replicas=False) as cluster:
        for count in range(1, MASTERS + 1):
            found = [measure(cluster, NAMESPACES[:count], jobs) for _ in range(rounds)]
            for what in found[0]:
                loads = sorted((one[what] for one in found), key=lambda load: load.us_of_busiest)
                load = loads[0]  # other programs of the machine only add to it
                each = ", ".join(f"{1e6 * one / load.jobs:.2f}" for one in load.nodes_s)
                speed = statistics.median(one[what].jobs / one[what].took_s for one in found)
                print(
                    f"{count} {what:20} us of each node a job: {each} ({loads[0].us_of_busiest:.2f}.."
                    f"{loads[-1].us_of_busiest:.2f}): it allows {1e6 / load.us_of_busiest:>9,.0f}/s; "
                    f"by the clock {speed:>9,.0f}/s",
                    flush=True,
                )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
