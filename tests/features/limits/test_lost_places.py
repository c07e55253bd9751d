"""Limits: places of jobs that are in no place any more are found and freed."""

from __future__ import annotations

import time

import pytest
from harness import Process, can, job, part_of, waiting
from slots import end, holders, wish

from goworkers_py.admin.places import waiting_in
from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.memory.broker import MemoryBroker, state_at
from goworkers_py.config.options import Config
from goworkers_py.core import machine
from goworkers_py.core.outcome import Done
from goworkers_py.features.limits import service as limit_releaser
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import Begins, LimitSettings, Slot, Waits
from goworkers_py.features.limits.limiting import Limiting
from goworkers_py.features.limits.service import LimitReleaser
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.outage import Outage

A, B = Slot("a"), Slot("b")
KEYS = [Slot("order", f"k{number}") for number in range(5)]


@pytest.fixture
def limits(me: Process, monkeypatch: pytest.MonkeyPatch) -> Limits:
    monkeypatch.setattr(limit_releaser, "LOOK_FOR_AFTER_S", -1.0)
    monkeypatch.setattr(limit_releaser, "LOOK_FOR_RUN_AFTER_S", -1.0)
    can(me.broker, Capability.ADMIN)
    limits = part_of(me.broker, Limits)
    limits.declare([LimitSettings(name, 1) for name in ("a", "b", "order")])
    return limits


def look(me: Process) -> None:
    """At all lines, and for missing jobs."""
    for entry in me.broker.require_part(Limits).entries():
        me.broker.require_part(Limits).set(entry.name, concurrent=1)
    LimitReleaser(me.broker, Limiting(Registry(), Config()), Outage("it")).run_once()


def test_all_keys_go_on_at_once_after_their_queue_is_cleared(me: Process, limits: Limits) -> None:
    me.publish(*(job(number) for number in range(15)))
    for one, slot in zip(me.consume(15), 3 * KEYS, strict=True):
        limits.begin(wish(one, slot))
    for number, slot in enumerate(KEYS):
        limits.leave(slot, str(number), ["q"])
    me.broker.admin.jobs_in(waiting_in("q")).clear()
    look(me)
    assert sorted(waiting(me.broker.admin)) == [job(number) for number in range(10, 15)]


def test_a_place_is_freed_whose_job_has_ended_while_its_owner_lives(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2), job(3))
    one, two, three = me.consume(3)
    limits.begin(wish(one, A))
    limits.begin(wish(three, B))
    assert limits.begin(wish(two, A)) == Waits("limit:a")
    me.settle((one, Done()))  # and the effect on its place has failed
    look(me)
    assert holders(limits, A) == ["2"]
    assert holders(limits, B) == ["3"]


def test_a_machine_whose_clock_is_ahead_looks_for_no_job_that_has_its_place_since_just_now(
    me: Process, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit_releaser, "LOOK_FOR_AFTER_S", 60.0)
    monkeypatch.setattr(limit_releaser, "LOOK_FOR_RUN_AFTER_S", 60.0)
    me.publish(job(1), job(2))
    one, two = me.consume(2)
    limits.begin(wish(one, A))
    assert limits.begin(wish(two, A)) == Waits("limit:a")
    me.settle((one, Done()))  # without leaving its place
    if isinstance(me.broker, MemoryBroker):  # its clock is that of this machine, unless it is told another one
        state_at(me.config.broker).clock = time.time
    real = time.time
    monkeypatch.setattr(machine, "time", lambda: real() + 600.0)
    look(me)
    assert holders(limits, A) == ["1"]


def test_the_place_of_a_block_is_not_looked_for(me: Process, limits: Limits) -> None:
    me.broker.recoverable.beat(Presence("host:1:0000000000aa", {}, blocks=True))
    assert limits.take(A, "block-1", "host:1:0000000000aa") is True
    me.publish(job(1))
    [one] = me.consume(1)
    limits.begin(wish(one, A))
    look(me)
    assert holders(limits, A) == ["block-1"]


def test_the_place_of_a_job_that_waits_in_another_line_is_kept(me: Process, limits: Limits) -> None:
    me.publish(job(1), job(2), job(3), job(4))
    one, two, three, four = me.consume(4)
    limits.begin(wish(one, A))
    limits.begin(wish(two, B))
    limits.begin(wish(three, A, B))
    limits.begin(wish(four, A))
    end(me, one, A)
    [three] = me.consume(1)
    assert limits.begin(wish(three, A, B)) == Waits("limit:b")
    look(me)
    assert holders(limits, A) == ["3"]
    end(me, two, B)
    [three] = me.consume(1)
    assert limits.begin(wish(three, A, B)) == Begins()


def test_the_place_of_a_dead_owner_is_freed_where_no_job_waits(me: Process, limits: Limits) -> None:
    assert limits.take(A, "block-1", "host:1:0000000000aa") is True  # it is in no registry
    releaser = LimitReleaser(me.broker, Limiting(Registry(), Config()), Outage("it"))
    releaser.run_once()
    assert holders(limits, A) == ["block-1"]
    releaser.look_at_all()
    releaser.run_once()
    assert holders(limits, A) == []
