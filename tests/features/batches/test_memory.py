"""For how long the memory broker knows a batch."""

from __future__ import annotations

from goworkers_py.brokers.memory.state import State
from goworkers_py.core.effect import KEPT_S
from goworkers_py.features.batches.batch import Membership, NewBatch
from goworkers_py.features.batches.memory import BatchTable


def test_events_of_a_batch_let_those_around_it_live_on() -> None:
    now = [0.0]
    batches = BatchTable(State(lambda: now[0]))
    batches.open(NewBatch(Membership("b"), "", "hold"))
    events = [
        lambda: batches.open(NewBatch(Membership("b.inner"), "", "hold")),
        lambda: batches.hold("b.inner", "other"),
        lambda: batches.join("b.inner", 1),
        lambda: batches.join("b.inner", 2),
        lambda: batches.end("b.inner", "succeeded", ""),
    ]
    for event in events:
        now[0] += KEPT_S - 1
        event()
        assert batches.status("b") is not None
