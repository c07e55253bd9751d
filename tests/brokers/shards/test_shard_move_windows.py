"""Jobs that move between shards, in the windows between the steps of a move: a list of shards that changes meanwhile,
a shard that is away for long, and servers whose clocks differ."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing

import pytest
import simplejson
from harness import Process, job
from harness_shards import ShardServers
from waiting import eventually

from goworkers_py.admin.cancelling import Canceller
from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.brokers.contracts.limits import SlotWish
from goworkers_py.brokers.contracts.transport import Batch
from goworkers_py.brokers.shards import move_relay
from goworkers_py.brokers.shards.move_relay import MoveRelay
from goworkers_py.brokers.shards.moving_records import MovingRecords
from goworkers_py.brokers.shards.placement import Placement, key_of_slot
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import FreeRubyLock, NoteState, Push, TakeRubyLock, Tracked
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.limit import LimitSettings, Slot, Waits
from goworkers_py.core.outcome import Done, Requeue

NAMES = "abcd"
SLOTS = [Slot(f"api{number}") for number in range(1_000)]
# All jobs are pushed to shard a.
JIDS = [jid for jid in (f"{number:08x}" for number in range(1_000)) if Placement(NAMES).home(jid) == 0]
HOUR_S = 3_600

Start = Callable[[str], Process]

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]


def slot_on(home: str, *others: tuple[str, str]) -> Slot:
    """A slot with this home on the shards a, b and c, and with other homes on other lists of shards."""
    homes = [("abc", home), *others]
    return next(
        slot for slot in SLOTS if all(names[Placement(names).home(key_of_slot(slot))] == one for names, one in homes)
    )


@pytest.fixture
def servers(server_program: str) -> Iterator[ShardServers]:
    with closing(ShardServers(len(NAMES))) as servers:
        yield servers


@pytest.fixture
def start(servers: ShardServers) -> Iterator[Start]:
    """Starts a process that knows these shards."""
    with ExitStack() as stack:

        def started(names: str) -> Process:
            urls = {name: server.url for name, server in zip(NAMES, servers.servers, strict=True)}
            process = Process(Config(broker="shards:" + ",".join(f"{name}={urls[name]}" for name in names)))
            stack.callback(process.broker.close)
            process.begin().broker.limits.declare([LimitSettings(slot.limit, 5) for slot in SLOTS[:50]])
            return process

        yield started


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No relay moves a job before its test says so."""
    monkeypatch.setattr(MoveRelay, "wake", lambda relay: None)


def relay_of(process: Process) -> MoveRelay:
    return process.broker._moves.relay


def is_killed(*asked: object) -> None:
    raise BrokerRefused("the process of the relay is killed here")


def move(process: Process, slot: Slot, payload: bytes, jid: str, **more: object) -> None:
    """The job is put into the outbox of shard a, on which it is."""
    tracked = Tracked(jid, "J") if b'"track"' in payload else None
    process.broker.transport.publish([Push("q", payload, track=tracked)])
    [one] = process.consume(1)
    assert one.receipt == 0
    wish = SlotWish([slot], jid, one, one.payload, ["q"], **more)  # type: ignore[arg-type]
    assert process.broker.limits.begin(wish) == Waits(slot.line)


def jobs_on(servers: ShardServers, number: int) -> list[str]:
    """The jobs that are in their queue there, or in progress: a wait that runs may have taken them."""
    with servers.servers[number].client() as client:
        payloads = [raw for key in client.scan_iter("queue:q*") for raw in client.lrange(key, 0, -1)]
    return sorted(simplejson.loads(raw)["jid"] for raw in payloads)


def copies(servers: ShardServers, jid: str) -> list[str]:
    return [name for number, name in enumerate(NAMES) for found in jobs_on(servers, number) if found == jid]


def test_a_job_moves_once_although_the_list_of_shards_changes_in_the_middle_of_its_move(
    start: Start, servers: ShardServers, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = slot_on("b", ("abcd", "d"))
    old, new = start("abc"), start("abcd")
    move(old, slot, job(JIDS[0]), JIDS[0])
    store = type(old.broker._shards.all[0].broker.store)
    with monkeypatch.context() as killed:
        killed.setattr(store, "sent", is_killed)
        relay_of(old).run_once()
    assert copies(servers, JIDS[0]) == ["b"]
    relay_of(new).run_once()
    assert copies(servers, JIDS[0]) == ["b"]
    assert new.broker.admin.stats().outbox == 0


def test_a_job_whose_goal_is_no_shard_any_more_moves_to_the_home_that_its_limit_has_now(
    start: Start, servers: ShardServers, quiet: None
) -> None:
    move(start("abc"), slot_on("b", ("acd", "d")), job(JIDS[0]), JIDS[0])
    new = start("acd")
    relay_of(new).run_once()
    assert copies(servers, JIDS[0]) == ["d"]
    assert new.broker.admin.stats().outbox == 0


def test_the_record_stays_of_a_job_that_moves_to_the_shard_on_which_it_is(
    start: Start, servers: ShardServers, quiet: None
) -> None:
    move(start("abc"), slot_on("b", ("acd", "a")), job(JIDS[0], track=True), JIDS[0])
    new = start("acd")
    relay_of(new).run_once()
    assert copies(servers, JIDS[0]) == ["a"]
    record = new.broker.store.record(JIDS[0])
    assert record is not None
    assert record.state == "waiting"


def test_jobs_for_a_shard_that_is_away_hold_up_none_for_another_shard(
    start: Start, servers: ShardServers, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move_relay, "MOST_STAYING", 4)
    monkeypatch.setattr(move_relay, "AT_ONCE", 2)
    me = start("abc")
    for jid in JIDS[:6]:
        move(me, slot_on("b"), job(jid), jid)
    move(me, slot_on("c"), job(JIDS[6]), JIDS[6])
    servers.servers[1].kill()
    relay_of(me).run_once()
    assert jobs_on(servers, 2) == [JIDS[6]]
    servers.servers[1].start()
    assert eventually(lambda: not me.broker._shards.all[1].away)
    relay_of(me).run_once()
    assert jobs_on(servers, 1) == JIDS[:6]


def test_the_record_of_a_job_that_has_ended_is_not_written_over_where_the_clocks_of_the_servers_differ(
    start: Start, servers: ShardServers, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, tracked = start("abc"), Tracked(JIDS[0], "J")
    move(me, slot_on("b"), job(JIDS[0], track=True), JIDS[0])
    let_clock_differ(servers, 0, HOUR_S)
    first, second = (shard.broker.store for shard in me.broker._shards.all[:2])
    with monkeypatch.context() as killed:
        killed.setattr(type(first), "sent", is_killed)
        killed.setattr(MovingRecords, "drop", lambda records, moved, source: None)
        relay_of(me).run_once()
    [one] = me.consume(1)
    assert me.settle((one, Done(effects=(NoteState(tracked, "completed", "it ended", 60),)))) == [True]
    relay_of(me).run_once()
    assert second.record(JIDS[0]).state == "completed"
    assert first.record(JIDS[0]) is None


def test_the_record_of_an_earlier_job_with_this_jid_is_not_taken_for_its_own_where_the_clocks_differ(
    start: Start, servers: ShardServers, quiet: None
) -> None:
    me, tracked = start("abc"), Tracked(JIDS[0], "J")
    second = me.broker._shards.all[1].broker.store
    earlier = NoteState(tracked, "completed", "it ended", 60)
    second.apply(Batch("test", 1, [(Delivery(b"", "", ""), Requeue(effects=(earlier,)))]))
    let_clock_differ(servers, 1, HOUR_S)
    move(me, slot_on("b"), job(JIDS[0], track=True), JIDS[0])
    relay_of(me).run_once()
    assert second.record(JIDS[0]).state == "waiting"


def let_clock_differ(servers: ShardServers, number: int, by_s: float) -> None:
    """As if the clock of this server had been ahead when it wrote the record."""
    with servers.servers[number].client() as client:
        key = f"pyworkers:job:{JIDS[0]}"
        client.hset(key, "at", float(client.hget(key, "at")) + by_s)


def test_a_job_that_is_refused_is_told_once_and_forgotten_when_it_has_moved(
    start: Start, servers: ShardServers, quiet: None, caplog: pytest.LogCaptureFixture
) -> None:
    me = start("abc")
    for jid in JIDS[:2]:
        move(me, slot_on("b"), job(jid), jid)
    with servers.servers[1].client() as client:
        client.set("queue:q", "damaged")
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                relay_of(me).run_once()
        assert len([one for one in caplog.messages if "cannot move to shard b" in one]) == 2
        client.delete("queue:q")
    for _ in range(2):
        relay_of(me).run_once()
    assert jobs_on(servers, 1) == JIDS[:2]
    assert relay_of(me)._refused == set()


def test_the_record_moves_of_a_job_that_is_tracked_by_its_class_only(
    start: Start, servers: ShardServers, quiet: None
) -> None:
    """As one that Ruby has pushed. Its record says that it runs, where its limit was asked late."""
    me, tracked = start("abc"), Tracked(JIDS[0], "J")
    first, second = (shard.broker.store for shard in me.broker._shards.all[:2])
    began = NoteState(tracked, "running", "in me", 60)
    first.apply(Batch("test", 1, [(Delivery(b"", "", ""), Requeue(effects=(began,)))]))
    parking = NoteState(tracked, "waiting", "line", 60)
    move(me, slot_on("b"), job(JIDS[0]), JIDS[0], effects=(parking,))
    relay_of(me).run_once()
    assert first.record(JIDS[0]) is None
    assert second.record(JIDS[0]).state == "waiting"


def test_the_lock_of_ruby_of_a_job_that_has_moved_is_freed_where_ruby_has_taken_it(
    start: Start, servers: ShardServers, quiet: None
) -> None:
    me, digest = start("abc"), "uniquejobs:1"
    first = me.broker._shards.all[0].broker.store
    taken = TakeRubyLock(JIDS[0], digest, 1, 0)
    first.apply(Batch("test", 1, [(Delivery(b"", "", ""), Requeue(effects=(taken,)))]))
    assert holders(servers, digest) == [JIDS[0]]
    move(me, slot_on("b"), job(JIDS[0]), JIDS[0])
    relay_of(me).run_once()
    [one] = me.consume(1)
    assert me.settle((one, Done(effects=(FreeRubyLock(JIDS[0], digest),)))) == [True]
    assert holders(servers, digest) == []


def holders(servers: ShardServers, digest: str) -> Sequence[str]:
    with servers.servers[0].client() as client:
        return [jid.decode() for jid in client.hkeys(f"{digest}:LOCKED")]


@pytest.mark.parametrize("more", [{}, {"track": True}], ids=["plain", "tracked"])
def test_a_job_in_the_middle_of_its_move_is_not_told_as_absent_and_can_be_cancelled(
    start: Start, servers: ShardServers, quiet: None, more: dict[str, bool]
) -> None:
    """Else a second push with its jid takes its record, and both run."""
    me = start("abc")
    move(me, slot_on("b"), job(JIDS[0], **more), JIDS[0])
    status = JobLookup(me.broker).status(JIDS[0])
    assert (status.state, status.absent) == ("waiting", False)
    assert Canceller(me.broker, lambda message: None).cancel(JIDS[0], retry=False, timeout=0.1) == "requested"
    relay_of(me).run_once()
    assert copies(servers, JIDS[0]) == ["b"]
    assert me.broker.cancels.stands(JIDS[0]), "the worker that begins the job meets the tombstone"
