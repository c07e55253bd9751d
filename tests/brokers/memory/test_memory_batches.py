"""For how long the memory broker knows a batch."""

from __future__ import annotations

from goworkers_py.features.batches.batch import OPEN_LIFE_S, Membership, NewBatch
from goworkers_py.features.batches.batch_table import BatchTable
from goworkers_py.features.cancelling.tombstones import Tombstones


def test_events_of_a_batch_let_those_around_it_live_on() -> None:
    now = [0.0]
    batches = BatchTable(lambda: now[0], Tombstones(lambda: now[0]), lambda callback: None)
    batches.open(NewBatch(Membership("b"), "", "hold"))
    events = [
        lambda: batches.open(NewBatch(Membership("b.inner"), "", "hold")),
        lambda: batches.hold("b.inner", "other"),
        lambda: batches.join("b.inner", 1),
        lambda: batches.join("b.inner", 2),
        lambda: batches.end("b.inner", "succeeded", ""),
    ]
    for event in events:
        now[0] += OPEN_LIFE_S - 1
        event()
        assert batches.status("b") is not None
