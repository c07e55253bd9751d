"""A missing lease is no death: what a live owner holds is given to nobody. After its death all of it is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import Process, Processes, job, part_of
from slots import holders, wish

from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.config.options import Config
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import Begins, LimitSettings, Rate, Slot, Waits
from goworkers_py.features.tracking.end import Tracking
from goworkers_py.policy.poison import PoisonPolicy
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.recovering.recoverer import judge_by

BLOCKS = "blocks:1:0000000000aa"
LIMITS = {
    "plain": LimitSettings("plain", 1),
    "keyed": LimitSettings("keyed", 1),
    "strict": LimitSettings("strict", 1, holds=True),
    "rate": LimitSettings("rate", 1, rate=Rate(1_000, 1.0, burst=1_000)),
}
SLOTS = {"plain": Slot("plain"), "keyed": Slot("keyed", "k1"), "strict": Slot("strict"), "rate": Slot("rate")}

pytestmark = pytest.mark.usefixtures("recoverable")


@pytest.fixture(params=LIMITS)
def slot(request: pytest.FixtureRequest, me: Process) -> Slot:
    part_of(me.broker, Limits).declare([LIMITS[request.param]])
    return SLOTS[request.param]


def recover(me: Process) -> None:
    """As the recoverer of a daemon, with the proof that it needs."""
    judge = judge_by(PoisonPolicy.of(Config()), [Tracking(Registry(), Config(), lambda: 0.0)], lambda: 0.0)
    list(me.broker.recoverable.recover(me.identity, judge, ""))


def declare_dead(me: Process, owner: str) -> None:
    """As a block that waits, where no daemon runs."""
    me.broker.recoverable.declare_dead(me.identity, "", [owner])


def looked(me: Process, slot: Slot) -> list[str]:
    me.broker.require_part(Limits).look(slot, ["q"])
    return holders(me.broker.require_part(Limits), slot)


def beat_for_blocks(me: Process, identity: str = BLOCKS) -> str:
    return me.broker.recoverable.beat(Presence(identity, {}, blocks=True)).proof


def test_the_place_of_a_job_whose_owner_has_lost_its_lease_is_given_to_nobody(
    me: Process, other: Process, start: Processes, slot: Slot
) -> None:
    limits = me.broker.require_part(Limits)
    me.publish(job(1), job(2))
    [one], [two] = other.consume(1), me.consume(1)
    assert limits.begin(wish(one, slot)) == Begins()
    assert limits.begin(wish(two, slot)) == Waits(slot.line)
    start.expire(other)
    beat_for_blocks(me)
    assert looked(me, slot) == ["1"]
    assert limits.take(slot, "block-1", BLOCKS) is False
    other.beat()  # the end of the outage
    assert looked(me, slot) == ["1"]


@pytest.mark.parametrize("die", [recover, lambda me: declare_dead(me, "host:2:000000000002")])
def test_the_place_of_a_job_whose_owner_is_dead_goes_on(
    me: Process, start: Processes, slot: Slot, die: Callable[[Process], None]
) -> None:
    limits, other = me.broker.require_part(Limits), start.unknown()
    other.identity = "host:2:000000000002"
    other.beat()
    me.publish(job(1), job(2))
    [one], [two] = other.consume(1), me.consume(1)
    limits.begin(wish(one, slot)), limits.begin(wish(two, slot))
    start.expire(other)
    die(me)
    assert looked(me, slot) == ["1" if slot.limit == "strict" else "2"]  # a strict line waits for the recovered job
    recover(me)
    [again] = me.consume(1)
    if slot.limit == "strict":
        assert limits.begin(wish(again, slot)) == Begins()


def test_the_place_of_a_block_whose_owner_has_lost_its_lease_is_given_to_nobody(
    me: Process, start: Processes, slot: Slot
) -> None:
    limits = me.broker.require_part(Limits)
    beat_for_blocks(me)
    assert limits.take(slot, "block-1", BLOCKS) is True
    me.publish(job(1))
    [one] = me.consume(1)
    limits.begin(wish(one, slot))
    start.expire(BLOCKS)
    assert looked(me, slot) == ["block-1"]
    beat_for_blocks(me)
    assert looked(me, slot) == ["block-1"]


@pytest.mark.parametrize("die", [recover, lambda me: declare_dead(me, BLOCKS)])
def test_the_place_of_a_block_whose_owner_is_dead_is_free(
    me: Process, start: Processes, slot: Slot, die: Callable[[Process], None]
) -> None:
    """Of a strict limit too: no recovery begins a block again."""
    limits = me.broker.require_part(Limits)
    beat_for_blocks(me)
    limits.take(slot, "block-1", BLOCKS)
    me.publish(job(1))
    [one] = me.consume(1)
    assert limits.begin(wish(one, slot)) == Waits(slot.line)
    start.expire(BLOCKS)
    deaths = me.broker.recoverable.deaths
    die(me)
    assert me.broker.recoverable.deaths > deaths
    assert looked(me, slot) == ["1"]
    [again] = me.consume(1)
    assert limits.begin(wish(again, slot)) == Begins()


def test_the_place_of_a_block_whose_owner_has_ended_is_free(me: Process, slot: Slot) -> None:
    beat_for_blocks(me)
    me.broker.require_part(Limits).take(slot, "block-1", BLOCKS)
    me.broker.recoverable.end_blocks(BLOCKS)
    assert looked(me, slot) == []


def test_nobody_is_dead_without_a_proof(me: Process, start: Processes, slot: Slot) -> None:
    beat_for_blocks(me)
    me.broker.require_part(Limits).take(slot, "block-1", BLOCKS)
    start.expire(BLOCKS)
    waits = "blocks:1:0000000000bb"
    stale, proof = beat_for_blocks(me, waits), beat_for_blocks(me, waits)
    for wrong in (None, stale):
        me.broker.recoverable.declare_dead(waits, wrong, [BLOCKS])
        assert looked(me, slot) == ["block-1"]
    me.broker.recoverable.declare_dead(waits, proof, [BLOCKS])
    assert looked(me, slot) == []


def test_an_owner_of_blocks_is_no_process(me: Process, start: Processes) -> None:
    seen = lambda: (  # noqa: E731
        me.broker.recoverable.live_processes(), me.broker.admin.owners(), me.broker.admin.stats().processes
    )  # fmt: skip
    before = seen()
    beat_for_blocks(me)
    assert seen() == before
