"""Measures any system: how fast a full queue drains and at what cost, how late a job starts.

A drain is looked at from outside: the jobs do nothing, and the server is asked how many are left. Start-up does not
count: the clock runs from the moment when 5 % are done to the moment when none is left.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench import wire
from bench.programs import Client, Failed, Program
from bench.server import OwnRedis
from bench.systems import System

LOOK_S = 0.005
SELDOM_S, SELDOM_SHARE = 0.25, 0.25  # at most so long between two looks, and so much of the time that is left
LEAST_COST_S = 0.05  # of processor time: in less, the taking of the time itself matters
READY_S, SETTLING_IN_S = 30.0, 1.0
BLOCKING = ("brpoplpush", "blmove")
FIRST_JOB_S = 60.0
WINDOW_S = 15.0
WARM_UP_SHARE = 0.05
FEWEST_JOBS = 100

WARM_UPS, WARM_UP_S = 10, 2.0  # jobs that do not count, and at most so long
STAMP_S = 15.0
LEAST_PAUSE_S, USUAL_PAUSE_S, MOST_PAUSE_S = 0.005, 0.02, 1.0


class Used(NamedTuple):
    """So far."""

    worker_s: float  # processor time
    server_s: float
    file_bytes: float  # of the server's append-only file


@dataclass
class Site:
    """One server and the systems to run on it, one after the other."""

    server: OwnRedis
    running: ExitStack = field(default_factory=ExitStack)

    def worker(self, system: System, threads: int, command: Sequence[str] = (), **environment: str) -> Program:
        command = command or system.worker(self.server.url, threads)
        program = Program(command, {**self._environment(system, threads), **environment}, self.server.log())
        self.running.callback(program.kill)
        return program

    def client(self, system: System, threads: int = 1) -> Client:
        client = Client(system.client(), self._environment(system, threads), self.server.log())
        self.running.callback(client.kill)
        return client

    def _environment(self, system: System, threads: int) -> dict[str, str]:
        places = {"BENCH_REDIS": self.server.url, "BENCH_STAMPS": str(self.server.stamps)}
        return {**system.environment(threads), **places}

    def __enter__(self) -> Site:  # noqa: PYI034  # typing.Self is newer than the oldest Python
        """An empty server; what is started is ended."""
        self.server.empty()
        return self

    def __exit__(self, *_: object) -> None:
        self.running.close()

    def ready(self, system: System, processes: int, threads: int) -> list[Program]:
        """Processes of ours that all wait for a job."""
        workers = [self.worker(system, threads) for _ in range(processes)]
        self.await_idle(workers, processes)
        return workers

    def await_idle(self, workers: Sequence[Program], queues: int) -> None:
        """Until a job is waited for on so many queues, counted for each process."""
        deadline = time.monotonic() + READY_S
        while sum(line["cmd"] in BLOCKING for line in self.server.client.client_list()) < queues:
            if time.monotonic() > deadline:
                raise Failed(f"not every queue is worked: {workers[-1].tail()}")
            for worker in workers:
                worker.check()
            time.sleep(LOOK_S)
        time.sleep(SETTLING_IN_S)

    # --- filling

    def fill(self, system: System, count: int, job: str, args: list[Any]) -> None:
        if system.speaks_wire:
            wire.fill(self.server.client, count, job, args)
        else:
            client = self.client(system)
            client.ask("fill", job=job, args=args, count=count)
            client.kill()
        found = system.left(self.server.client)
        if found != count:
            raise Failed(f"{count} jobs were pushed, and {found} wait")

    # --- stamps

    def stamps(self) -> list[int]:
        return [int(line) for line in self.server.stamps.read_bytes().splitlines()]

    def await_stamps(self, count: int, workers: Sequence[Program], within_s: float = STAMP_S) -> None:
        deadline = time.monotonic() + within_s
        lines = 0
        size = -1
        while lines < count:
            if time.monotonic() > deadline:
                raise Failed(f"{lines} of {count} jobs ran within {within_s:.0f} s: {workers[0].tail()}")
            for worker in workers:
                worker.check()
            time.sleep(0.001)
            now = self.server.stamps.stat().st_size
            if now != size:
                size, lines = now, len(self.stamps())


class Look(NamedTuple):
    at: float
    left: int
    used: Used | None = None


class Drained(NamedTuple):
    rate: float  # jobs a second
    worker_us: float | None = None  # processor time a job, of all processes of the worker together
    server_us: float | None = None  # and of the Redis server
    file_bytes: float | None = None  # a job, in its append-only file


def rate_of(left: Callable[[], int], workers: Sequence[Program], count: int) -> float:
    """How fast `left` goes from `count` to none, in jobs a second."""
    first, last = _watch(left, workers, count, lambda: None, lambda *_: LOOK_S)
    return (first.left - last.left) / (last.at - first.at)


def drain(
    server: OwnRedis,
    system: System,
    count: int,
    job: str = "noop",
    args: Sequence[Any] = (),
    threads: int = 10,
    durable: bool = False,
) -> Drained:
    with Site(server) as site:
        site.fill(system, count, job, list(args))
        if durable:
            site.running.enter_context(server.append_only_file())
        return drained(server, lambda: system.left(server.client), site.worker(system, threads), count)


def drained(server: OwnRedis, left: Callable[[], int], worker: Program, count: int) -> Drained:
    """As `rate_of`, with what it costs."""

    def used() -> Used:
        return Used(worker.cpu_s(), server.cpu_s(), server.file_bytes())

    first, last = _watch(left, [worker], count, used, _seldom)
    done = first.left - last.left
    rate = done / (last.at - first.at)
    if first.used is None or last.used is None or last.used.worker_s - first.used.worker_s < LEAST_COST_S:
        return Drained(rate)
    worker_s, server_s, file_bytes = (
        (after - before) / done for before, after in zip(first.used, last.used, strict=True)
    )
    return Drained(rate, 1e6 * worker_s, 1e6 * server_s, file_bytes)


def _watch(
    left: Callable[[], int],
    workers: Sequence[Program],
    count: int,
    used: Callable[[], Used | None],
    pause_s: Callable[[Look, Look], float],
) -> tuple[Look, Look]:
    """The look that found the first jobs done, and the one that found none left."""
    began = full = time.monotonic()
    first = None
    while True:
        now = Look(time.monotonic(), left())
        if now.left == count:
            full = now.at
        if first is None and count - now.left >= count * WARM_UP_SHARE:
            # So few jobs that they were done between two looks: the clock has run since the look before.
            first = now._replace(used=used()) if now.left else Look(full, count)
        if first is not None and (now.left == 0 or now.at - first.at > WINDOW_S):
            return first, now._replace(used=used())
        if first is None and now.at - began > FIRST_JOB_S:
            raise Failed(f"no job within {FIRST_JOB_S:.0f} s: {workers[0].tail()}")
        for worker in workers:
            worker.check()
        time.sleep(LOOK_S if first is None else pause_s(first, now))


def _seldom(first: Look, now: Look) -> float:
    """A look costs the server something, and a slow system would be charged for many. The last ones come closer."""
    if now.left == first.left:
        return LOOK_S
    remaining_s = now.left * (now.at - first.at) / (first.left - now.left)
    return max(LOOK_S, min(SELDOM_S, remaining_s * SELDOM_SHARE))


def latencies_ns(server: OwnRedis, system: System, count: int, within_s: float, threads: int = 10) -> list[int]:
    """From just before the push to the first line of the job, one at a time, each some time after the last has run."""
    with Site(server) as site:
        worker, client = site.worker(system, threads), site.client(system)
        client.ask("stamp")
        site.await_stamps(1, [worker], FIRST_JOB_S)
        began, done, warm = time.monotonic(), 1, WARM_UPS
        while done < warm + count and time.monotonic() - began < WARM_UP_S + within_s:
            if done < warm and time.monotonic() - began > WARM_UP_S:
                warm = done
            # As long as a job may wait: a system that polls must not be met just behind its last look each time.
            most = max(USUAL_PAUSE_S, min(MOST_PAUSE_S, max(site.stamps()[1:], default=0) / 1e9))
            time.sleep(random.uniform(LEAST_PAUSE_S, most))
            client.ask("stamp")
            done += 1
            site.await_stamps(done, [worker])
        return site.stamps()[min(warm, done - 1) :]


def idle_cpu_percent(worker: Program, seconds: float) -> float:
    used, began = worker.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return 100 * (worker.cpu_s() - used) / (time.monotonic() - began)
