"""Makes entries of each feature in Redis by the public ways: this program pushes jobs, and a worker runs some of them.

Each job has one argument, its number, and a class of four letters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import goworkers_py as workers
from bench.measure import LOOK_S, Site
from bench.programs import Failed, Program
from bench.systems import ASYNQ, KEYS, OURS, QUEUE, System
from goworkers_py.features.batches.redis_part import batches_key
from goworkers_py.features.chains.redis_part import chains_key
from goworkers_py.features.groups.redis_part import groups_of_key
from goworkers_py.features.periodic.redis_part import schedules_key

THREADS, MANY_THREADS = 10, 200
HOST = "report-worker-7c9d8f6b5c-x2x4z"  # as Kubernetes names machines
DAY_S = 86_400
SLICE = 10_000
TOGETHER, LINKS = 100, 10  # jobs of a group or of a batch, links of a chain
MODULE = "pyworkers_entries"
STILL_S = 60.0  # a worker that does nothing for so long has failed

Rows = list[list[int]]
Make = Callable[[Site, int], None]

app = workers.App()
noop, fail = (app.job(name, queue=QUEUE)(lambda number: None) for name in ("Noop", "Fail"))
kept, slow, long = (app.job(name, queue=QUEUE, retain=DAY_S)(lambda number: None) for name in ("Kept", "Slow", "Long"))
line, keys = app.limit("line", concurrent=1), app.limit("keys", concurrent=1, by=lambda number: number)
in_line = app.job("Line", queue=QUEUE, limits=[line])(lambda number: None)
with_key = app.job("Keys", queue=QUEUE, limits=[keys])(lambda number: None)


class Entries(NamedTuple):
    """Those of one feature."""

    make: Make
    look: tuple[str, ...]  # a command that answers how many there are
    each: int = 1  # how many are in what the command counts
    share: float = 1.0  # of a million, where that takes too long


# --- ours: pushes


def _push(push: Callable[[Rows], object], site: Site, count: int, together: int = SLICE) -> None:
    app.configure(broker=site.server.url)
    for start in range(0, count, together):
        push([[number] for number in range(start, min(count, start + together))])
    app.broker.close()


def _pushed(push: Callable[[Rows], object], *look: str, together: int = SLICE, each: int = 1) -> Entries:
    return Entries(partial(_push, push, together=together), look or ("LLEN", KEYS.queue(QUEUE)), each)


def _schedule(rows: Rows) -> None:
    noop.set(at=time.time() + DAY_S).enqueue_bulk(rows)


def _gather(rows: Rows) -> None:
    noop.set(group=f"user:{rows[0][0]}").enqueue_bulk(rows)


def _batch(rows: Rows) -> None:
    with app.batch("bench"):
        noop.enqueue_bulk(rows)


def _chain(rows: Rows) -> None:
    app.chain(*[noop.s(*row) for row in rows]).enqueue()


# --- ours: what a worker leaves behind


def _run(push: Callable[[Rows], object], site: Site, count: int, threads: int = THREADS) -> None:
    _push(push, site, count)
    worker = _worker(site, threads, DYNO=HOST)
    _await(lambda: count - OURS.left(site.server.client), count, worker)
    worker.stop()


def _ran(push: Callable[[Rows], object], *look: str, share: float = 1.0, threads: int = THREADS) -> Entries:
    return Entries(partial(_run, push, threads=threads), look, share=share)


def _register(site: Site, count: int) -> None:
    worker = _worker(site, THREADS, BENCH_PERIODICS=str(count))
    _await(lambda: site.server.client.scard(schedules_key(KEYS)), count, worker)
    worker.stop()


def _worker(site: Site, threads: int, **environment: str) -> Program:
    # The log of a million failures is long.
    command = OURS.worker(site.server.url, threads, "--log-level", "error")
    return site.worker(OURS, threads, [MODULE if word == OURS.jobs else word for word in command], **environment)


def _await(done: Callable[[], int], count: int, worker: Program) -> None:
    last, moved_at = -1, time.monotonic()
    while (now := done()) < count:
        if now != last:
            last, moved_at = now, time.monotonic()
        if time.monotonic() - moved_at > STILL_S:
            raise Failed(f"{now} of {count} are done, and nothing goes on: {worker.tail()}")
        worker.check()
        time.sleep(20 * LOOK_S)


# --- asynq


def _fill_asynq(job: str, site: Site, count: int) -> None:
    client = site.client(ASYNQ)
    client.ask("fill", job=job, count=count, numbered=True)
    client.kill()


def _run_asynq(job: str, site: Site, count: int, threads: int = THREADS) -> None:
    _fill_asynq(job, site, count)
    worker = site.worker(ASYNQ, threads)
    _await(lambda: count - ASYNQ.left(site.server.client), count, worker)
    worker.stop()


def _asynq(make: Callable[[str, Site, int], None], job: str, *look: str, each: int = 1, share: float = 1.0) -> Entries:
    return Entries(partial(make, job), look, each, share)


# --- the features

PLAIN, UNIQUE, GROUPED = "waiting job", "unique job", "member of a group"
KEPT, KEPT_SLOW = "kept result of a no-op job: a number", "kept result of a job of 0.1 s: a number"
KEPT_LONG = "kept result of a no-op job: 100 characters"
RETAINED = ("ZCARD", "asynq:{default}:completed")
FEW, FEWER = 0.1, 0.01

# The kinds that asynq has too. Its server is not there while groups fill, so it flushes none.
SHARED: dict[str, dict[System, Entries]] = {
    PLAIN: {
        OURS: _pushed(noop.enqueue_bulk),
        ASYNQ: _asynq(_fill_asynq, "noop", "LLEN", "asynq:{default}:pending"),
    },
    UNIQUE: {
        OURS: _pushed(noop.set(unique_for=DAY_S).enqueue_bulk, "DBSIZE"),
        ASYNQ: _asynq(_fill_asynq, "unique", "DBSIZE"),
    },
    KEPT: {
        OURS: _ran(kept.enqueue_bulk, "DBSIZE"),
        ASYNQ: _asynq(_run_asynq, "kept", *RETAINED),
    },
    KEPT_SLOW: {
        OURS: _ran(slow.enqueue_bulk, "DBSIZE", share=FEW, threads=MANY_THREADS),
        ASYNQ: _asynq(partial(_run_asynq, threads=MANY_THREADS), "slow", *RETAINED, share=FEW),
    },
    KEPT_LONG: {
        OURS: _ran(long.enqueue_bulk, "DBSIZE", share=FEW),
        ASYNQ: _asynq(_run_asynq, "long", *RETAINED, share=FEW),
    },
    GROUPED: {
        OURS: _pushed(_gather, "ZCARD", groups_of_key(KEYS, "Noop"), together=TOGETHER, each=TOGETHER),
        ASYNQ: _asynq(_fill_asynq, "grouped", "SCARD", "asynq:{default}:groups", each=TOGETHER),
    },
}

OWN: dict[str, Entries] = {
    "tracked job": _pushed(noop.set(track=True).enqueue_bulk, "DBSIZE"),
    "scheduled job": _pushed(_schedule, "ZCARD", KEYS.schedule),
    "retry": _ran(fail.enqueue_bulk, "ZCARD", KEYS.retry),
    f"job of a batch of {TOGETHER}": _pushed(_batch, "ZCARD", batches_key(KEYS), together=TOGETHER, each=TOGETHER),
    f"link of a chain of {LINKS}": _pushed(_chain, "ZCARD", chains_key(KEYS), together=LINKS, each=LINKS),
    "job in the line of a limit": _pushed(in_line.enqueue_bulk, "LLEN", KEYS.line("limit:line")),
    "job with a place of its own in a limit": _pushed(with_key.enqueue_bulk, "DBSIZE"),
    "unique job that newer arguments replace": _pushed(
        noop.set(unique_for=DAY_S, on_conflict="replace").enqueue_bulk, "DBSIZE"
    ),
    "lock without a job": _ran(noop.set(unique_for=DAY_S, unique_until="expiry").enqueue_bulk, "DBSIZE"),
    "schedule of a periodic job": Entries(_register, ("SCARD", schedules_key(KEYS)), share=FEWER),
}
