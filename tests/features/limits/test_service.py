"""The limit releaser: one slot that the broker refuses to look at stops no other one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from apps import own_app

from goworkers_py.brokers.memory.broker import forget
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import DueSlots, Looked, Slot
from goworkers_py.features.limits.limiting import Limiting
from goworkers_py.features.limits.service import LimitReleaser
from goworkers_py.runtime.outage import Outage


def test_a_damaged_slot_stops_no_other_one(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    looked: list[Slot] = []

    def look(_: object, slot: Slot, *args: Any, **more: Any) -> Looked:
        looked.append(slot)
        if slot == Slot("damaged"):
            raise BrokerRefused("WRONGTYPE")
        return Looked(0, 0)

    with own_app("memory://releaser", QueueConfig(name="q", concurrency=1)) as app:
        kind = type(app.broker.require_part(Limits))
        monkeypatch.setattr(kind, "look", look)
        monkeypatch.setattr(kind, "due", lambda *_, **__: DueSlots([Slot("damaged"), Slot("api")], None))
        releaser = LimitReleaser(app.broker, Limiting(app.registry, app.config), Outage("memory"))
        releaser.run_once()
        releaser.run_once()
    forget("memory://releaser")
    assert looked == [Slot("damaged"), Slot("api"), Slot("api")]
    assert [record.message for record in caplog.records] == ["limit damaged: its line cannot be looked at: WRONGTYPE"]


def test_all_lines_are_looked_at_when_the_clock_of_the_broker_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    clock = [1_000.0, 400.0, 401.0, 402.0]

    def due(_: object, limit: int, within_s: float = 0.0) -> DueSlots:
        asked.append(within_s)
        return DueSlots([], None, clock.pop(0))

    with own_app("memory://releaser", QueueConfig(name="q", concurrency=1)) as app:
        monkeypatch.setattr(type(app.broker.require_part(Limits)), "due", due)
        releaser = LimitReleaser(app.broker, Limiting(app.registry, app.config), Outage("memory"))
        while clock:
            releaser.run_once()
    forget("memory://releaser")
    assert asked == [0.0, 0.0, math.inf, 0.0]
