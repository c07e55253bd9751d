"""The doctor's check of batches: those that do not end."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from goworkers_py.admin.filter import counted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.contracts.admin import Advice
from goworkers_py.core import machine
from goworkers_py.features.batches.batch import BatchStatus
from goworkers_py.features.batches.contract import Batches

# A batch that is open for longer may have lost its opener, or its jobs.
LONG_OPEN_S = 3 * 86_400
# So many batches are looked at.
MOST_READ = 1_000


def batch_findings(inspector: Inspector) -> Iterator[Advice]:
    if inspector.has(Batches):
        yield from old_batches(inspector.batches.all(), machine.time())


def old_batches(batches: Iterable[BatchStatus], now: float) -> Iterator[Advice]:
    for batch in itertools.islice(batches, MOST_READ):
        if batch.ended_at is not None or now - batch.at < LONG_OPEN_S:
            continue
        days, shown = int((now - batch.at) // 86_400), f"batch {batch.bid}{f' ({batch.name})' if batch.name else ''}"
        if batch.pending:
            what = f"{shown} is open for {days} days, and {counted(batch.pending)} of it have not ended"
            todo = "if another program has deleted them: `pyworkers batches close --force` ends it"
        else:
            what = f"{shown} is open for {days} days, and all its jobs have ended"
            todo = "if the program that opened it was killed: `pyworkers batches close` ends it"
        yield Advice(False, what, todo)
