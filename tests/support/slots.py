"""Jobs in the slots of limits, for the contract tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from harness import Process, payloads

from goworkers_py.admin.places import PARKED
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import Done
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.effects import LeaveSlot
from goworkers_py.features.limits.limit import BLOCK_S, Slot
from goworkers_py.wire import payload as wire


def jid_of(delivery: Delivery) -> str:
    return str(wire.read(delivery.payload)["jid"])


def wish(delivery: Delivery, *slots: Slot) -> SlotWish:
    return SlotWish(slots, jid_of(delivery), delivery, delivery.payload, ("q",))


def end(process: Process, delivery: Delivery, *slots: Slot) -> None:
    """The job is done, and leaves its places."""
    process.settle((delivery, Done(effects=tuple(LeaveSlot(jid_of(delivery), slot, ("q",)) for slot in slots))))


def holders(limits: Limits, slot: Slot) -> list[str]:
    return [one.jid for one in limits.holders(slot)]


def parked(process: Process) -> list[bytes]:
    return payloads(process.broker.admin.jobs_in(PARKED).first(100))


@contextmanager
def turn_of_a_block() -> Iterator[None]:
    """Around the steps from the moment at which a block of code asks for a place until what its turn must have kept
    from others. A block that does not ask again within BLOCK_S loses its turn, so a test that stood still for longer
    tells nothing."""
    began = time.monotonic()
    try:
        yield
    except AssertionError:
        if time.monotonic() - began < BLOCK_S:
            raise
        pytest.skip("the machine stood still for longer than the turn of a block lasts")
