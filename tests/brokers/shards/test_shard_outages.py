"""One of three servers is killed, or hangs: what the others go on to do, and what is refused."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import pytest
from harness import Process, job
from harness_shards import ShardServers
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.contracts.recoverable import DeclaredDead
from goworkers_py.brokers.contracts.transport import Batch, Published, Push
from goworkers_py.brokers.shards import consumer
from goworkers_py.brokers.shards.moves import _Move
from goworkers_py.brokers.shards.placement import Placement
from goworkers_py.config.options import Config
from goworkers_py.core.call import Call, Target
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import PushJobs, Tracked
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, BrokerUnreachable
from goworkers_py.core.job_state import JobState
from goworkers_py.core.lock import LockClaim
from goworkers_py.core.outcome import DONE, Done, Retry

NAMES = ["a", "b", "c"]
PLACEMENT = Placement(NAMES)
LOST = "shard b cannot serve"

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]


def jids(home: str, count: int) -> list[str]:
    """Jids whose home is this shard."""
    found = (f"{number:08x}" for number in range(100_000))
    return [*itertools.islice((jid for jid in found if NAMES[PLACEMENT.home(jid)] == home), count)]


def lock(home: str) -> LockClaim:
    number = next(number for number in range(1000) if NAMES[PLACEMENT.home(f"lock:Job:{number}")] == home)
    return LockClaim(f"Job:{number}", "1", 60)


@pytest.fixture
def start(servers: ShardServers) -> Iterator[Callable[[], Process]]:
    started: list[Process] = []

    def begin() -> Process:
        process = Process(Config(broker=servers.address)).begin()
        started.append(process)
        return process

    yield begin
    for process in started:
        process.broker.close()


@pytest.fixture
def me(start: Callable[[], Process]) -> Process:
    return start()


@pytest.fixture
def b(servers: ShardServers) -> RedisServer:
    return servers.servers[1]


def take(process: Process, count: int) -> list[Delivery]:
    return sorted(process.consume(count), key=lambda one: one.payload)


def at_home(home: str, count: int) -> list[bytes]:
    return sorted(job(jid) for jid in jids(home, count))


def publish(process: Process, *homes: str, count: int = 1) -> list[bytes]:
    payloads = [payload for home in homes for payload in at_home(home, count)]
    process.publish(*payloads)
    return sorted(payloads)


def size(server: RedisServer) -> int:
    with server.client() as client:
        return client.llen("queue:q")


@pytest.fixture
def always_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call begins with another shard. Else several calls begin with the same, for some milliseconds."""
    monkeypatch.setattr(consumer, "STAY_S", 0.0)


@pytest.mark.usefixtures("always_next")
def test_jobs_are_spread_and_taken_from_every_shard_in_turn(me: Process, servers: ShardServers) -> None:
    publish(me, *NAMES, count=40)
    assert [size(server) for server in servers.servers] == [40, 40, 40]
    for _ in range(6):
        me.broker.transport.consume(me.identity, [("q", 10)], 10)
    assert [size(server) for server in servers.servers] == [20, 20, 20]


@pytest.mark.usefixtures("always_next")
def test_a_job_behind_a_long_queue_of_another_shard_does_not_wait_for_it(me: Process) -> None:
    publish(me, "a", count=500)
    [late] = publish(me, "c")
    taken = [one.payload for _ in range(6) for one in me.broker.transport.consume(me.identity, [("q", 10)], 10)]
    assert late in taken


def test_a_job_that_comes_while_the_others_are_busy_is_caught_by_a_wait(me: Process) -> None:
    publish(me, "a", count=500)
    me.consume(100)  # has found the others empty, and waits there
    [late] = publish(me, "c")
    taken = [one.payload for _ in range(3) for one in me.broker.transport.consume(me.identity, [("q", 10)], 10)]
    assert late in taken


def test_in_strict_order_a_lower_queue_of_one_shard_waits_for_a_higher_one_of_another(me: Process) -> None:
    me.publish(*(job(jid, "high") for jid in jids("a", 30)), queue="high")
    me.publish(*(job(jid, "low") for jid in jids("b", 30)), queue="low")
    taken = [
        one.queue for _ in range(5) for one in me.broker.transport.consume(me.identity, [("high", 10), ("low", 10)], 10)
    ]
    assert taken[:30] == ["high"] * 30
    assert set(taken[30:]) == {"low"}


def test_plain_jobs_of_a_dead_shard_go_to_the_next_and_it_is_told_once(
    me: Process, b: RedisServer, servers: ShardServers, caplog: pytest.LogCaptureFixture
) -> None:
    b.kill()
    published = publish(me, *NAMES, count=10)
    publish(me, "b", count=10)
    assert size(servers.servers[0]) + size(servers.servers[2]) == 40
    assert sorted({one.payload for one in take(me, 40)}) == published
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line.partition(":")[0] for line in told] == [LOST, "shard b is away"]


def test_a_push_whose_guarantee_lives_on_a_dead_shard_is_refused_and_the_others_are_not(
    me: Process, b: RedisServer
) -> None:
    b.kill()
    transport = me.broker.transport
    with pytest.raises(BrokerUnavailable, match=r"the lock Job:\d+ lives on shard b, which cannot serve now"):
        transport.publish([Push("q", job(jids("a", 1)[0])), Push("q", job(1), lock=lock("b"))])
    with pytest.raises(BrokerUnavailable, match=r"the lock Job:\d+ lives on shard b"):
        transport.publish([Push("q", job(2), lock=lock("c")), Push("q", job(1), lock=lock("b"))])
    [tracked] = jids("b", 1)
    with pytest.raises(BrokerUnavailable, match="a record lives on shard b"):
        transport.publish([Push("q", job(tracked), track=Tracked(tracked, "Job"))])
    [batch] = [f"{number:x}" for number in range(50) if NAMES[PLACEMENT.home(f"batch:{number:x}")] == "b"][:1]
    with pytest.raises(BrokerUnavailable, match=f"the batch {batch} lives on shard b"):
        me.broker.batches.status(batch)
    assert transport.publish([Push("q", job(1), lock=lock("c"))]) == [Published.PUSHED]
    assert [one.payload for one in me.consume(1)] == [job(1)], "nothing of the refused call was pushed"


def test_without_any_shard_a_push_and_a_consume_fail(me: Process, servers: ShardServers) -> None:
    for server in servers.servers:
        server.kill()
    with pytest.raises(BrokerUnreachable):
        publish(me, *NAMES)
    with pytest.raises(BrokerUnavailable):
        me.broker.transport.consume(me.identity, [("q", 1)], 1)
    with pytest.raises(BrokerUnavailable):
        me.beat()
    with pytest.raises(BrokerUnavailable):
        me.broker.admin.stats()


def test_the_beats_and_jobs_of_the_others_go_on_and_those_of_the_shard_when_it_is_back(
    me: Process, b: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    published = publish(me, *NAMES, count=5)
    b.kill()
    assert me.beat().kept
    assert len(me.consume(10)) == 10
    b.start()
    me.beat()
    assert [one.payload for one in take(me, 5)] == [payload for payload in published if payload in at_home("b", 5)]
    assert eventually(lambda: any("shard b serves again after" in line for line in caplog.messages))


def test_a_shard_that_hangs_holds_nobody_up_for_longer_than_one_call(me: Process, b: RedisServer) -> None:
    b.pause()
    me.broker.transport.publish([Push("q", job(jids("a", 1)[0]))])  # of another shard
    with pytest.raises(BrokerUnavailable):
        publish(me, "b")  # its reply may be lost: it is not pushed elsewhere
    assert len(me.consume(1)) == 1

    def soon() -> bool:
        began = time.monotonic()
        publish(me, *NAMES, count=10)
        assert len(me.consume(30)) == 30
        return time.monotonic() - began < 5

    # The machine may stand still during one of them.
    assert any(soon() for _ in range(3)), "a call that asks the shard waits for five seconds"
    b.resume()


def test_several_pushes_whose_reply_is_lost_are_not_pushed_elsewhere(servers: ShardServers, b: RedisServer) -> None:
    with Proxy(b.port) as proxy:
        process = Process(Config(broker=servers.address.replace(b.url, proxy.url)))
        proxy.drop_reply_of(b"LPUSH")
        with pytest.raises(BrokerUnavailable):
            publish(process, "b", count=2)
        process.broker.close()
    assert [size(server) for server in servers.servers] == [0, 2, 0]


def test_what_others_hold_is_settled_while_a_shard_is_away_and_the_rest_when_it_is_back(
    me: Process, b: RedisServer
) -> None:
    publish(me, *NAMES, count=2)
    held = take(me, 6)
    b.kill()
    told = me.settle(*((one, DONE) for one in held))
    assert [result for one, result in zip(held, told, strict=True) if one.receipt != 1] == [True] * 4
    left = [(one, DONE) for one, result in zip(held, told, strict=True) if result is not True]
    assert len(left) == 2
    b.start()
    assert eventually(lambda: me.settle(*left) == [True, True])
    assert me.broker.admin.stats().processed == 6


@pytest.mark.parametrize("found", ["fetched", "reply was lost", "caught at the end of the waits"])
def test_a_job_that_lies_elsewhere_than_at_home_is_settled_where_it_lies(
    me: Process, b: RedisServer, found: str
) -> None:
    b.kill()
    transport = me.broker.transport
    if found.startswith("caught"):
        assert transport.consume(me.identity, [("q", 1)], 1, 0.0) == []  # leaves a wait on the others
    publish(me, "b")
    if found.startswith("caught"):
        [one] = transport.end_waits(["q"])
    else:
        [one] = me.consume(1)
    if found == "reply was lost":
        [one] = transport.lost_replies(me.identity, "q", [], thorough=True)
    assert me.settle((one, DONE)) == [True]


def test_a_settlement_whose_reply_was_lost_is_told_when_its_shard_is_back(me: Process, b: RedisServer) -> None:
    """Here the shard gets the whole batch and hangs before it answers."""
    publish(me, *NAMES, count=3)
    held = take(me, 9)
    firsts = [next(one for one in held if one.receipt == number) for number in range(3)]
    me.settle(*((one, DONE) for one in firsts))  # each shard knows the script from now on
    held = [one for one in held if one not in firsts]
    b.pause()
    told = me.settle(*((one, DONE) for one in held))
    left = [(one, DONE) for one, result in zip(held, told, strict=True) if result is not True]
    assert len(left) == 2
    b.resume()  # it does now what it was sent before
    assert eventually(lambda: size_in_progress(b, me) == 0)
    assert eventually(lambda: me.settle(*left) == [True, True]), "not as a lost lease"
    assert me.broker.admin.stats().processed == 9


def refused_login(*_: object) -> NoReturn:
    error = BrokerRefused("the server refused the login")
    error.at_login = True
    raise error


def test_a_settlement_whose_reply_was_lost_keeps_its_number_while_its_shard_refuses_the_login(
    me: Process, b: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another number it would take an equal job off the list, which was fetched since."""
    [payload] = publish(me, "b")
    held = [(one, DONE) for one in take(me, 1)]
    transport = me.broker.transport._shards.all[1].broker.transport
    settle, numbers = transport.settle, list[int]()

    def is_cut_off(batch: Batch) -> object:
        numbers.append(batch.number)
        if len(numbers) == 1:
            settle(batch)
            with b.client() as client:
                client.lpush(f"queue:q:{me.identity}:inprogress", payload)
            raise BrokerUnavailable("the reply got lost")
        return refused_login() if len(numbers) < 4 else settle(batch)

    monkeypatch.setattr(transport, "settle", is_cut_off)
    assert eventually(lambda: me.settle(*held) == [True])
    assert numbers == [numbers[0]] * 4
    assert size_in_progress(b, me) == 1


def test_a_move_whose_reply_was_lost_is_asked_again_after_a_refused_login(
    me: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(me, "b")
    [one] = take(me, 1)
    moves, shard = me.broker._moves, me.broker.transport._shards.all[1]
    moves.unanswered[one] = _Move(shard, Batch("move", 1, [(one, DONE)]))
    with monkeypatch.context() as refuses:
        refuses.setattr(shard.broker.transport, "settle", refused_login)
        assert "cannot serve now" in str(moves.answers([one])[one])
    assert moves.answers([one]) == {one: True}


def size_in_progress(server: RedisServer, process: Process) -> int:
    with server.client() as client:
        return client.llen(f"queue:q:{process.identity}:inprogress")


def test_a_command_that_a_shard_brings_late_is_read_once_and_none_of_before_the_start(
    me: Process, b: RedisServer
) -> None:
    calls, shard = me.broker.calls, me.broker.transport._shards.all[1]
    first, second = (Call(name, "flush", [], Target(), "the test", 60.0) for name in ("first", "second"))

    def is_back() -> bool:
        b.resume()
        return eventually(lambda: not shard.away)

    began = calls.end()
    calls.give(first)
    b.pause()
    position, found = calls.after(began)
    assert ([call.id for call in found], shard.away) == (["first"], True)
    late = calls.end()  # of a process that starts now: it knows nothing of the calls that b has
    assert is_back()
    position, found = calls.after(position)
    late, found_late = calls.after(late)
    assert ([*found], [*found_late]) == ([], [])
    calls.give(second)
    assert [[call.id for call in calls.after(at)[1]] for at in (position, late)] == [["second"], ["second"]]


def told_of(process: Process) -> list[tuple[str, str]]:
    return [(facts.shard, facts.address) for facts in process.broker.admin.servers()]


@pytest.mark.parametrize("how", ["killed", "hangs"])
def test_each_shard_that_is_there_tells_of_itself_and_one_that_is_away_holds_nobody_up(
    me: Process, servers: ShardServers, b: RedisServer, how: str
) -> None:
    every = [(name, f"127.0.0.1:{one.port}") for name, one in zip(NAMES, servers.servers, strict=True)]
    assert told_of(me) == every
    b.kill() if how == "killed" else b.pause()
    assert told_of(me) == [every[0], every[2]]

    def soon() -> bool:
        began = time.monotonic()
        assert told_of(me) == [every[0], every[2]]
        return time.monotonic() - began < 4

    # The machine may stand still during one of them.
    assert any(soon() for _ in range(3)), "nobody asks it any more: a call would wait for five seconds"
    b.start() if how == "killed" else b.resume()
    assert eventually(lambda: told_of(me) == every)


def test_a_held_push_with_a_guarantee_elsewhere_happens_there_and_once(me: Process) -> None:
    publish(me, "a")
    [one] = me.consume(1)
    pushes = Push("q", job("plain")), Push("q", job(1), lock=lock("c"))
    outcome = Done(effects=(PushJobs("1", pushes),))
    assert me.settle((one, outcome)) == [True]
    assert me.settle((one, outcome)) == [False], "it has left; its foreign part is known by its id"
    assert me.broker.locks.entry(lock("c").name) is not None
    assert sorted(one.payload for one in me.consume(2)) == sorted([job("plain"), job(1)])
    assert me.broker.admin.stats().queues[0].size == 0


def test_a_batch_that_is_asked_again_after_an_outage_of_all_shards_is_settled_as_a_whole(
    me: Process, servers: ShardServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time, the end of one job of shard a is refused, because a part of it lives on b."""
    publish(me, "a", count=2)
    publish(me, "b")
    held = sorted(me.consume(3), key=lambda one: one.receipt)
    effects = (PushJobs("1", (Push("q", job(1), lock=lock("b")),)),)
    finished = [*zip(held, (DONE, Done(effects=effects), DONE), strict=True)]
    a, b, c = me.broker.transport._shards.all
    kill(servers.servers[1:])
    for shard in (b, c):
        shard.failed(BrokerUnavailable("killed"))
    ask_b = b.ask

    def fails(verb: Callable[[object], object]) -> object:
        if size_in_progress(servers.servers[0], me) == 1:
            a.failed(BrokerUnavailable("another thread finds it away"))
        return ask_b(verb)

    monkeypatch.setattr(b, "ask", fails)
    with pytest.raises(BrokerUnavailable):
        me.broker.transport.settle(Batch("settler", 1, finished))
    monkeypatch.undo()
    for server in servers.servers[1:]:
        server.start()
    assert eventually(lambda: not (a.away or b.away or c.away))
    assert list(me.broker.transport.settle(Batch("settler", 1, finished)))[:2] == [True, True]
    assert size_in_progress(servers.servers[0], me) == 0


def kill(servers: Sequence[RedisServer]) -> None:
    for server in servers:
        server.kill()


def test_a_shard_with_a_damaged_key_keeps_no_other_one_from_promoting(me: Process, servers: ShardServers) -> None:
    publish(me, "b")
    [held] = me.consume(1)
    assert me.settle((held, Retry(1.0, held.payload))) == [True]
    with servers.servers[0].client() as client:
        client.set("retry", "damaged")
    with pytest.raises(BrokerRefused, match="WRONGTYPE"):
        list(me.broker.store.promote(JobState.RETRY, lambda payload, now: ("q", payload), 10))
    assert size(servers.servers[1]) == 1


def test_a_held_push_with_two_guarantees_keeps_no_other_job_from_being_settled(me: Process) -> None:
    publish(me, "a", "b")
    one, two = sorted(me.consume(2), key=lambda one: one.receipt)
    push = Push("q", job(1), lock=lock("c"), batch="bid")
    told = me.settle((one, DONE), (two, Done(effects=(PushJobs("1", (push,)),))))
    assert told[0] is True
    assert "each of them lives on a shard of its own" in str(told[1])


def test_the_jobs_of_a_dead_process_are_recovered_on_every_shard_and_late_on_one_that_was_away(
    me: Process, start: Callable[[], Process], b: RedisServer, servers: ShardServers
) -> None:
    publish(me, *NAMES, count=3)
    other = start()
    other.consume(9)
    b.kill()
    for number in (0, 2):
        with servers.servers[number].client() as client:
            client.delete(f"pyworkers:lease:{other.identity}")
    assert len(me.recover(me.beat().proof)) == 6
    b.start()
    assert eventually(lambda: not me.broker._shards.all[1].away)
    with b.client() as client:
        client.delete(f"pyworkers:lease:{other.identity}")
    assert me.recover(me.beat().proof) == [], "all may have lost their leases in the outage"
    me.broker.recoverable._steady_at.clear()  # a minute later
    assert len(me.recover(me.beat().proof)) == 3


def test_a_process_that_one_shard_has_declared_dead_goes_on_under_a_new_identity(
    me: Process, start: Callable[[], Process], b: RedisServer
) -> None:
    publish(me, *NAMES)
    held = take(me, 3)
    other = start()
    with b.client() as client:
        client.delete(f"pyworkers:lease:{me.identity}")
    assert len(other.recover(other.beat().proof)) == 1
    with pytest.raises(DeclaredDead):
        me.beat()
    me.identity += "0"
    assert me.beat()
    assert sorted(me.settle(*((one, DONE) for one in held))) == [False, True, True]
    assert len(me.consume(1)) == 1


def test_a_shard_that_refuses_a_beat_keeps_no_other_one_from_renewing_its_lease(
    me: Process, servers: ShardServers
) -> None:
    lease = f"pyworkers:lease:{me.identity}"
    a, b, c = (server.client() for server in servers.servers)
    for one in (b, c):
        one.pexpire(lease, 5_000)
    a.delete(lease)
    a.lpush(lease, "damaged")
    with pytest.raises(BrokerRefused):
        me.beat()
    assert all(one.pttl(lease) > 5_000 for one in (b, c))
