"""Ours on other services than one Redis, and without a pool: RabbitMQ, serial mode."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.bars.throughput import THREADS
from bench.environments import Unavailable, python_environment, python_version
from bench.places import PEERS, ROOT
from bench.programs import Failed, Program
from bench.report import Table
from bench.run import Run, rows
from bench.systems import OURS

FILL_S, DRAIN_S, LOOK_S = 300.0, 120.0, 0.02
SHARE_OF_PIKA, TIMES_A_POOL_OF_ONE = 0.7, 1.2
PIKA, POOL, SERIAL = "bare pika", "a pool of one thread", "mode = serial"

Rates = tuple[float, float]  # jobs a second of the clock, and a second of the processor


@dataclass(frozen=True)
class Drain:
    """Fills a queue by one program, and drains it by another that notes its rates, see peers/counted.py."""

    fill: Sequence[str]
    work: Sequence[str]
    count: int
    threads: int = THREADS

    def __call__(self, run: Run, url: str) -> Rates:
        noted = run.server.folder / "rates"
        noted.unlink(missing_ok=True)
        environment = {
            "PYTHONPATH": os.pathsep.join([str(PEERS), str(ROOT)]),
            "BENCH_URL": url, "BENCH_COUNT": str(self.count), "BENCH_THREADS": str(self.threads),
            "BENCH_RATES": str(noted),
        }  # fmt: skip
        with ExitStack() as running:
            filler = Program(self.fill, environment, run.server.log())
            running.callback(filler.kill)
            filler.await_end(FILL_S)
            worker = Program(self.work, environment, run.server.log())
            running.callback(worker.kill)
            deadline = time.monotonic() + DRAIN_S
            while not noted.exists():
                worker.check()
                if time.monotonic() > deadline:
                    raise Failed(f"the queue is not empty after {DRAIN_S:.0f} s: {worker.tail()}")
                time.sleep(LOOK_S)
        by_clock, by_processor = json.loads(noted.read_text("utf-8"))
        return by_clock, by_processor


# --- RabbitMQ


def rabbitmq(run: Run) -> list[Table]:
    if not run.available(OURS):
        return []
    how = (
        f"Jobs that do nothing, {THREADS} threads, until the queue is empty, on one node of RabbitMQ. {PIKA} is a loop "
        "that acknowledges each message, with a prefetch of 250, on the queue of ours, which is a quorum queue. Celery "
        "and Dramatiq have their own queues, which are not replicated, and their usual prefetch."
    )
    table = Table("rabbitmq", "no-op jobs of RabbitMQ", "jobs/s", how)
    with ExitStack() as stack:
        try:
            node = stack.enter_context(closing(_node()))
        except Exception as reason:
            table.left_out[OURS.name] = f"no RabbitMQ: {reason}"
            return [table]
        addresses = (node.new_vhost(f"bench-{number}") for number in range(10_000))
        found = run.in_turn(table, _contestants(run, table, lambda drain: drain(run, next(addresses))))
    _fill_in(table, found, PIKA, SHARE_OF_PIKA)
    for peer in ("celery", "dramatiq"):
        ours, row = table.row(OURS.name), table.row(peer)
        if ours and row:
            times = ours.median / row.median
            table.judge(peer, f"{times:.1f}x", "> 1x", times > 1)
    return [table]


def _node() -> Any:
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    import servers
    from rabbit import RabbitServer

    servers.allowed = True
    return RabbitServer()


def _contestants(run: Run, table: Table, drain: Callable[[Drain], Rates]) -> Mapping[str, Callable[[], Rates]]:
    python = sys.executable
    fill = [python, str(PEERS / "counted_pyworkers.py")]
    drains = {
        OURS.name: Drain(fill, _ours(run, f"[queue:default]\nconcurrency = {THREADS}"), run.jobs // 2),
        PIKA: Drain(fill, [python, str(PEERS / "counted_pika.py")], run.jobs // 2),
    }
    peers = {
        "celery": f"celery -A counted_celery worker -P threads -c {THREADS} -l WARNING",
        "dramatiq": f"dramatiq counted_dramatiq --processes 1 --threads {THREADS}",
    }
    for name, command in peers.items():
        if run.wanted and name not in run.wanted:
            continue
        try:
            extra = "[rabbitmq]" if name == "dramatiq" else ""
            programs = python_environment(f"{name}-rabbitmq", [f"{name}{extra}"])
        except Unavailable as reason:
            table.left_out[name] = str(reason)
            continue
        run.versions[name] = python_version(programs, name)
        program, *words = command.split()
        drains[name] = Drain(
            [str(programs / "python"), str(PEERS / f"counted_{name}.py")], [str(programs / program), *words],
            max(100, run.jobs // 20),
        )  # fmt: skip
    return {label: partial(drain, one) for label, one in drains.items()}


# --- serial mode


def serial(run: Run) -> list[Table]:
    if not run.available(OURS):
        return []
    table = Table(
        "serial", "no-op jobs one after the other", "jobs/s",
        "As drain, timed in the worker: with `concurrency = 1`, and with `mode = serial`.",
    )  # fmt: skip
    fill = [sys.executable, str(PEERS / "counted_pyworkers.py")]
    forms = {POOL: "[queue:default]\nconcurrency = 1", SERIAL: "[queue:default]\nmode = serial"}

    def once(drain: Drain) -> Rates:
        run.server.empty()
        return drain(run, run.server.url)

    measures = {
        label: partial(once, Drain(fill, _ours(run, queue, label), run.jobs, 1)) for label, queue in forms.items()
    }
    return _pair(table, run.in_turn(table, measures), SERIAL, POOL, TIMES_A_POOL_OF_ONE)


# --- for all


def _ours(run: Run, queue: str, label: str = "conf") -> list[str]:
    conf = run.server.folder / f"{label.replace(' ', '-')}.ini"
    conf.write_text(f"[pyworkers]\nrequire = counted_pyworkers\nlog_level = warning\n{queue}\n", "utf-8")
    # The address comes from the environment of the program: a shell of its own puts it there.
    return ["/bin/sh", "-c", f'exec "$0" -m goworkers_py.cli run -c "{conf}" --broker "$BENCH_URL"', sys.executable]


def _pair(table: Table, found: Mapping[str, Sequence[Rates]], label: str, other: str, least: float) -> list[Table]:
    by_processor = Table(
        table.bar, f"{table.title}, by processor time of the worker", "jobs/s",
        "The same jobs a second of processor time: other programs on the machine change it little.",
    )  # fmt: skip
    by_processor.rows = rows({name: [rates[1] for rates in rounds] for name, rounds in found.items()})
    table.rows = rows({name: [rates[0] for rates in rounds] for name, rounds in found.items()})
    _judge(table, label, other, least)
    ours, base = by_processor.row(label), by_processor.row(other)
    if ours and base:
        ours.ratio = f"{ours.median / base.median:.2f}x"
    return [table, by_processor]


def _fill_in(table: Table, found: Mapping[str, Sequence[Rates]], other: str, least: float) -> None:
    table.rows = rows({name: [rates[0] for rates in rounds] for name, rounds in found.items()})
    _judge(table, OURS.name, other, least)


def _judge(table: Table, label: str, other: str, least: float) -> None:
    ours, base = table.row(label), table.row(other)
    if ours and base:
        ratio = ours.median / base.median
        table.judge(label, f"{ratio:.2f}x", f">= {least:g}x", ratio >= least)
