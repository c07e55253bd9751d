"""A job with a limit begins on another shard than that of its limit: it moves there, also when servers fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from harness import Process, job
from harness_shards import ShardServers
from proxy import Proxy
from waiting import eventually

from goworkers_py.brokers.contracts.limits import SlotWish
from goworkers_py.brokers.shards.move_relay import MoveRelay
from goworkers_py.brokers.shards.moving_records import MovingRecords
from goworkers_py.brokers.shards.placement import Placement, key_of_slot
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import NoteState, Push, Tracked
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.limit import Begins, LimitSettings, Lost, Slot, Waits
from goworkers_py.core.outcome import REQUEUE_LAST, Done
from goworkers_py.core.slot_effects import LeaveSlot

NAMES = ["a", "b", "c"]
PLACEMENT = Placement(NAMES)
# The limit lives on shard b, and the jobs on shard a.
SLOT = next(slot for slot in (Slot(f"api{number}") for number in range(100)) if PLACEMENT.home(key_of_slot(slot)) == 1)
JIDS = [jid for jid in (f"{number:08x}" for number in range(100)) if PLACEMENT.home(jid) == 0]

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]


@pytest.fixture
def proxies(servers: ShardServers) -> Iterator[list[Proxy]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Proxy(server.port)) for server in servers.servers]


@pytest.fixture
def me(proxies: list[Proxy]) -> Iterator[Process]:
    address = ",".join(f"{name}={proxy.url}" for name, proxy in zip(NAMES, proxies, strict=True))
    process = Process(Config(broker=f"shards:{address}")).begin()
    process.broker.limits.declare([LimitSettings(SLOT.limit, 5)])
    yield process
    for proxy in proxies:
        proxy.pass_through()
    process.broker.close()


@pytest.fixture
def held(me: Process) -> Delivery:
    me.broker.transport.publish([Push("q", job(JIDS[0]))])
    [one] = me.consume(1)
    assert one.receipt == 0
    return one


def wish(one: Delivery) -> SlotWish:
    return SlotWish([SLOT], JIDS[0], one, one.payload, ["q"])


def places(servers: ShardServers, me: Process) -> list[str]:
    """Where the job is now, by the names of its shards and keys."""
    found = []
    for name, server in zip(NAMES, servers.servers, strict=True):
        with server.client() as client:
            for key in ("queue:q", f"queue:q:{me.identity}:inprogress", "pyworkers:outbox:shard b"):
                found += [f"{name} {key.replace(me.identity, 'me')}"] * client.llen(key)
    return found


# A wait that runs may have taken it from its queue already.
AT_HOME = ["b queue:q"], ["b queue:q:me:inprogress"]
BACK = ["a queue:q"], ["a queue:q:me:inprogress"]


def test_a_job_moves_to_the_home_of_its_limit_and_begins_there(
    me: Process, held: Delivery, servers: ShardServers
) -> None:
    assert me.broker.limits.begin(wish(held)) == Waits(SLOT.line)
    assert eventually(lambda: places(servers, me) in AT_HOME), places(servers, me)
    [again] = me.consume(1)
    assert me.broker.limits.begin(wish(again)) == Begins()


def make_script_known(me: Process) -> None:
    """Else a first call is answered that the script is not known, and nothing happens."""
    me.broker.transport.publish([Push("other", job(JIDS[1], queue="other"))])
    [one] = me.consume(1, "other")
    outcome = dataclasses.replace(REQUEUE_LAST, effects=(LeaveSlot(JIDS[1], SLOT),))
    assert me.settle((one, outcome)) == [True]


def test_a_job_whose_move_lost_its_reply_goes_on_from_one_place_and_is_not_told_as_lost(
    me: Process, held: Delivery, servers: ShardServers, proxies: list[Proxy]
) -> None:
    make_script_known(me)
    shard = me.broker._shards.all[0]
    proxies[0].drop_reply_of(b"EVALSHA")
    with pytest.raises(BrokerUnavailable):
        me.broker.limits.begin(wish(held))
    assert proxies[0].hits == 1
    assert eventually(lambda: not shard.away)
    assert me.settle((held, REQUEUE_LAST)) == [True]
    assert eventually(lambda: places(servers, me) in AT_HOME), places(servers, me)
    assert not me.broker._moves.unanswered


def test_a_job_whose_move_never_came_to_its_shard_moves_when_it_is_settled(
    me: Process, held: Delivery, servers: ShardServers, proxies: list[Proxy]
) -> None:
    make_script_known(me)
    shard = me.broker._shards.all[0]
    proxies[0].drop_command(b"EVALSHA")
    with pytest.raises(BrokerUnavailable):
        me.broker.limits.begin(wish(held))
    [told] = me.settle((held, REQUEUE_LAST))  # True if the shard is back already
    assert told is True or str(told).startswith("shard a, from which this job was to move, cannot serve")
    assert eventually(lambda: not shard.away)
    assert told is True or me.settle((held, REQUEUE_LAST)) == [True]
    assert eventually(lambda: places(servers, me) in AT_HOME), places(servers, me)


def test_a_move_that_is_refused_leaves_the_job_in_progress(me: Process, held: Delivery, servers: ShardServers) -> None:
    with servers.servers[0].client() as client:
        client.set("pyworkers:outboxes", "damaged")
    with pytest.raises(BrokerRefused, match="WRONGTYPE"):
        me.broker.limits.begin(wish(held))
    assert me.settle((held, REQUEUE_LAST)) == [True]
    assert places(servers, me) in BACK


def test_a_job_whose_push_at_the_home_lost_its_reply_is_there_once(
    me: Process, held: Delivery, servers: ShardServers, proxies: list[Proxy]
) -> None:
    me.broker.transport.publish([Push("q", job(1), id="makes the script known")] * 3)
    proxies[1].drop_reply_of(b"EVALSHA")
    assert me.broker.limits.begin(wish(held)) == Waits(SLOT.line)
    assert eventually(lambda: servers_of(servers, me) == ["b"] and "outbox" not in str(places(servers, me)))
    assert proxies[1].hits == 1


def servers_of(servers: ShardServers, me: Process) -> list[str]:
    """Without the job that only makes the script known."""
    found = []
    for name, server in zip(NAMES, servers.servers, strict=True):
        with server.client() as client:
            for key in ("queue:q", f"queue:q:{me.identity}:inprogress"):
                found += [name] * client.lrange(key, 0, -1).count(job(JIDS[0]))
    return found


def test_while_the_home_is_away_the_job_waits_in_the_outbox_and_not_in_a_circle(
    me: Process, held: Delivery, servers: ShardServers
) -> None:
    servers.servers[1].kill()
    assert me.broker.limits.begin(wish(held)) == Waits(SLOT.line)
    assert places_of_a(servers, me) == ["a pyworkers:outbox:shard b"]
    assert me.broker.admin.stats().outbox == 1
    servers.servers[1].start()
    assert eventually(lambda: not any(shard.away for shard in me.broker._shards.all))
    assert eventually(lambda: places(servers, me) in AT_HOME), places(servers, me)


def places_of_a(servers: ShardServers, me: Process) -> list[str]:
    with servers.servers[0].client() as client:
        keys = ("queue:q", f"queue:q:{me.identity}:inprogress", "pyworkers:outbox:shard b")
        return [f"a {key}" for key in keys for _ in range(client.llen(key))]


def test_a_job_that_a_dead_process_has_left_in_the_outbox_is_moved_by_any_other_one_once(
    me: Process, held: Delivery, servers: ShardServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MoveRelay, "wake", lambda relay: None)  # it is killed here
    assert me.broker.limits.begin(wish(held)) == Waits(SLOT.line)
    assert places(servers, me) == ["a pyworkers:outbox:shard b"]
    monkeypatch.undo()
    others = [Process(Config(broker=servers.address)).begin() for _ in range(3)]
    try:
        for other in others:
            other.beat()
        assert eventually(lambda: places(servers, me) in AT_HOME), places(servers, me)
    finally:
        for other in others:
            other.broker.close()
    assert places(servers, me) in AT_HOME


def test_a_job_that_was_given_to_another_process_does_not_move(
    me: Process, held: Delivery, servers: ShardServers
) -> None:
    with servers.servers[0].client() as client:
        client.delete(f"queue:q:{me.identity}:inprogress")
    assert me.broker.limits.begin(wish(held)) == Lost()
    assert places(servers, me) == []


def test_the_end_of_a_job_that_did_not_begin_frees_no_place_at_the_home_of_its_limit(
    me: Process, held: Delivery
) -> None:
    """After a move without an answer, the job may run there already."""
    assert me.broker.limits.take(SLOT, JIDS[0], me.identity) is True
    outcome = dataclasses.replace(REQUEUE_LAST, effects=(LeaveSlot(JIDS[0], SLOT),))
    assert me.settle((held, outcome)) == [True]
    assert [one.jid for one in me.broker.limits.holders(SLOT)] == [JIDS[0]]


def test_the_record_of_a_tracked_job_moves_with_it(
    me: Process, servers: ShardServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked, payload = Tracked(JIDS[0], "J"), job(JIDS[0], track=True)
    me.broker.transport.publish([Push("q", payload, track=tracked)])
    [one] = me.consume(1)
    first, second = (shard.broker.store for shard in me.broker._shards.all[:2])
    sent = type(first).sent
    monkeypatch.setattr(type(first), "sent", lambda store, to, posted: None)  # each relay finds the job again
    assert me.broker.limits.begin(wish(one)) == Waits(SLOT.line)
    assert eventually(lambda: first.record(JIDS[0]) is None), "else it would say waiting for ever"
    moved = me.broker.store.record(JIDS[0])
    assert (moved.state, moved.timeline[-1].reason) == ("waiting", "moved to the shard of its limit")
    [again] = me.consume(1)
    assert me.settle((again, Done(effects=(NoteState(tracked, "completed", "it ended", 60),)))) == [True]
    monkeypatch.setattr(type(first), "sent", sent)
    me.broker._moves.relay.wake()
    assert eventually(lambda: places(servers, me) == []), "it is not pushed again"
    assert second.record(JIDS[0]).state == "completed"


def test_a_relay_that_was_killed_before_it_dropped_the_old_record_leaves_the_newer_one(
    me: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = Tracked(JIDS[0], "J")
    me.broker.transport.publish([Push("q", job(JIDS[0], track=True), track=tracked)])
    [one] = me.consume(1)
    first, second = (shard.broker.store for shard in me.broker._shards.all[:2])
    with monkeypatch.context() as killed:
        killed.setattr(type(first), "sent", lambda store, to, posted: None)
        killed.setattr(MovingRecords, "drop", lambda records, moved, source: None)
        assert me.broker.limits.begin(wish(one)) == Waits(SLOT.line)
        [again] = me.consume(1)
        assert me.settle((again, Done(effects=(NoteState(tracked, "completed", "it ended", 60),)))) == [True]
    me.broker._moves.relay.wake()
    assert eventually(lambda: first.record(JIDS[0]) is None)
    assert second.record(JIDS[0]).state == "completed"
