"""Every script declares each key that it uses: watched on a server, and tried on a node of a cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis as redis_py
from apps import job, own_broker
from fleet import Fleet
from lua_sets import word_sets
from process_life import STEPS, ProcessLife
from servers import RedisServer
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import DEAD as DEAD_JOBS
from goworkers_py.admin.places import PARKED, RETRIES, SCHEDULED, waiting_in
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.admin import Glance
from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.driver.composition import scripts
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script
from goworkers_py.brokers.redis.driver.fencing import fenced
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import Config
from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.fence import Fence
from goworkers_py.core.outcome import Dead, Done, Park
from goworkers_py.features.batches.batch import EVENTS, BatchTie, Callback, Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.chains.chain import ChainLink, LinkJob, NewChain
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.chains.effects import EndLink
from goworkers_py.features.configuration.contract import Configurations
from goworkers_py.features.delays.redis import RedisPersistence
from goworkers_py.features.delays.task import DelayTask
from goworkers_py.features.for_ruby.contract import RubyLocks
from goworkers_py.features.for_ruby.effects import FreeRubyLock, TakeRubyLock
from goworkers_py.features.for_ruby.lock import RubyLock
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.effects import EndSet
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings, OwnSettings
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.limit import LimitSettings, Rate, Slot, SlotClaim
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Fired, Firing, Release, Rule
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid
from goworkers_py.features.tracking.contract import Records
from goworkers_py.features.tracking.effects import NoteState, TrackedJob
from goworkers_py.features.tracking.tie import RecordTie
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.features.unique.lock import Begin, LockClaim, OwnedLock

# The scripts of all sets of words that are composed.
SCRIPTS = {
    one.sha: path.name
    for path in scripts()
    for words in word_sets(path)
    for script in [Script(path, words=words)]
    for one in (script, fenced(script))
}


class Watch:
    """The output of MONITOR, one line for each command; the commands of a script follow the call of the script."""

    def __init__(self, redis: redis_py.Redis) -> None:
        self._redis = redis
        self._monitor = redis.monitor().__enter__()

    def undeclared(self) -> tuple[set[str], set[tuple[str, str]]]:
        """The scripts that were called, and each key that a script used and had not declared."""
        self._redis.echo("enough")
        called, found, declared, script = set(), set(), [], ""
        while True:
            source, words = self._next()
            if words[:2] == ["ECHO", "enough"]:
                return called, found
            if words[0].upper() == "EVALSHA":
                script = SCRIPTS.get(words[1], "?")
                called.add(script)
            if words[0].upper() in ("EVALSHA", "EVAL"):  # the latter follows where the server did not know the script
                declared = words[3 : 3 + int(words[2])]
            elif source == "lua" and words[0].upper() not in ("TIME", "PUBLISH"):
                keys = self._redis.command_getkeys(*words)
                found |= {(script, key) for key in keys if key not in declared}

    def _next(self) -> tuple[str, list[str]]:
        line = self._monitor.connection.read_response().decode()
        source = re.match(r"[\d.]+ \[\d+ (\S+)\]", line)
        assert source
        return source[1], [_unescaped(word) for word in re.findall(r'"((?:[^"\\]|\\.)*)"', line)]

    def close(self) -> None:
        self._monitor.__exit__(None, None, None)


def _unescaped(word: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", word)


@pytest.fixture
def watch(own_redis: RedisServer) -> Iterator[Watch]:
    watch = Watch(own_redis.client())
    yield watch
    watch.close()


def _end_a_batch(broker: RedisBroker, life: ProcessLife) -> None:
    """A batch in a batch: a job dies, is revived, and both batches end; another one is cancelled."""
    outer, inner = Membership("outer", ("callbacks",)), Membership("outer.inner", ("callbacks",))
    for member in outer, inner:
        callbacks = {event: Callback("callbacks", job()) for event in EVENTS}
        broker.require_part(Batches).open(NewBatch(member, "", "hold", callbacks))
        broker.require_part(Batches).hold(member.bid, "other")
        broker.require_part(Batches).let_go(member.bid, "other")
    broker.transport.publish([Push("q", job(), ties=(BatchTie(inner.bid),))])
    for member in inner, outer:
        broker.require_part(Batches).let_go(member.bid, "hold", member.to)
    life.settle(lambda payload: Dead(payload, effects=(EndInBatch("1", inner, "failed", b"{}"),)))
    life.settle(lambda payload: Done(effects=(EndInBatch("1", inner, "revived"),)))
    broker.require_part(Batches).open(NewBatch(Membership("another"), "", "hold"))
    broker.transport.publish([Push("q", job(), ties=(BatchTie("another"),))])
    broker.require_part(Batches).cancel("another")
    life.settle(lambda payload: Done(effects=(EndInBatch("1", Membership("another"), "succeeded"),)))
    broker.require_part(Batches).close("another", force=True)


def _end_a_chain(broker: RedisBroker, life: ProcessLife) -> None:
    """A chain in a batch: a link of two parts, a stop, its end; another one is cancelled."""
    batch = Membership("of-chain")
    broker.require_part(Batches).open(NewBatch(batch, "", "hold"))
    one, two = LinkJob("links", job()), LinkJob("links", job(previous=1))
    broker.require_part(Chains).push(NewChain("chain", [[one], [two, two], [one]], "of-chain"))
    for number, part in (1, 1), (2, 1), (2, 2), (3, 1):
        link = ChainLink("chain", number, part, ("links",))
        end = EndLink("1", link, b"1", bid="of-chain")
        life.settle(lambda payload, end=end: Done(effects=(end._replace(why="dead"),)))
        life.settle(lambda payload, end=end: Done(effects=(end,)))
    broker.require_part(Chains).push(NewChain("another", [[one]]))
    broker.require_part(Chains).cancel("another")
    life.settle(lambda payload: Done(effects=(EndLink("1", ChainLink("another", 1)),)))


def test_every_script_declares_each_key_that_it_touches(own_redis: RedisServer, watch: Watch) -> None:
    redis = own_redis.client()
    with (
        own_broker(own_redis.url, dead_max_jobs=2, dead_timeout=100) as broker,
        closing(Connections(own_redis.url)) as connections,
    ):
        life = ProcessLife(broker, redis, connections)
        for step in STEPS:
            step(life)
        redis.lpush("queue:picked", job())
        redis.zadd("retry", {job(jid="moved"): 4e9})
        life.settle(lambda payload: Park("line"))
        life.settle(lambda payload: Park("line"))
        broker.store.release("line", 1)
        inspector = Inspector(lambda: broker)
        list(inspector.kill(PARKED, Filter()))
        list(inspector.delete(waiting_in("picked"), Filter()))
        list(inspector.kill(RETRIES, Filter()))
        _unique(broker)
        broker.require_part(Locks).begin(Begin("Order:1", "jid", "q", 60, take=True))
        owned = OwnedLock("Order:1", "jid", 90, "limited")
        broker.require_part(Locks).own([owned])
        broker.require_part(Locks).disown([owned])
        _fire(broker.require_part(Periodic))
        life.settle(lambda payload: Done(effects=(KeepLock("jid", "Order:1", 90), FreeLock("jid", "Order:1"))))
        broker.require_part(RubyLocks).begin(RubyLock("uniquejobs:d", "jid", "until_and_while_executing"))
        again, end = TakeRubyLock("jid", "uniquejobs:d", 1, 60), FreeRubyLock("jid", "uniquejobs:d")
        life.settle(lambda payload: Done(effects=(again, end, FreeRubyLock("jid", "uniquejobs:d:RUN"))))
        _limits(broker)
        _end_a_batch(broker, life)
        _end_a_chain(broker, life)
        of_groups(broker, life)
        _ended(broker, redis, life)
        _election(broker, own_redis.url, redis)
        _delays(own_redis.url)
        configurations = broker.require_part(Configurations)
        configurations.push("billing", "[pyworkers]", "me")
        configurations.read("billing")
        configurations.delete("billing")
        broker.admin.jobs_in(DEAD_JOBS, Glance()).first(1)
        assert broker.admin.queues()
        called, undeclared = watch.undeclared()
    assert called == set(SCRIPTS.values())
    assert undeclared == set()


def _unique(broker: RedisBroker) -> None:
    both = [Push("q", job(jid=jid), ties=(LockClaim(f"Order:{jid}", jid, 60),)) for jid in ("2", "3")]
    broker.transport.publish(both)
    newest = LockClaim("Order:4", "4", 60, "replace", b"{}")
    for at in (4e9, None):
        broker.transport.publish([Push("q", job(jid="4"), at, ties=(newest,))])


def _limits(broker: RedisBroker) -> None:
    slot = Slot("order", "key")
    broker.require_part(Limits).declare([LimitSettings("order", 1, Rate(100, 1))])
    broker.transport.publish([Push("limited", job(jid=one), ties=(SlotClaim(slot, one),)) for one in ("a", "b", "c")])
    [first] = broker.transport.consume("limited", [("limited", 1)], 1)
    broker.require_part(Limits).begin(
        SlotWish([slot], "a", first, first.payload, ["limited"], [FreeLock("a", "Order:1")])
    )
    broker.transport.publish([Push("limited", job(jid="d"))])
    [other] = broker.transport.consume("limited", [("limited", 1)], 1)
    broker.require_part(Limits).begin(SlotWish([slot], "d", other, other.payload, ["limited"]))
    ended = Done(effects=(LeaveSlot("a", slot), HoldSlot("b", slot)))
    broker.transport.settle(SettlementBatch("limits", 1, [(first, ended)]))
    broker.require_part(Limits).take(Slot("order"), "block", "limited")
    broker.require_part(Limits).leave(Slot("order"), "block")
    broker.require_part(Limits).look(slot, ["limited"], broker.require_part(Limits).holders(slot))
    broker.require_part(Limits).set("order", concurrent=2)
    list(broker.require_part(Limits).slots("order"))
    broker.require_part(Limits).due(1)


def _election(broker: RedisBroker, url: str, redis: redis_py.Redis) -> None:
    """Of a leader whose predecessor has not resigned."""
    for token in "first", "second":
        fence = Fence("billing", token)
        bid = Bid(f"{token}:1:aaaaaaaaaaaa", token, False, broker.require_part(Leadership).look("billing"))
        fence.epoch = broker.require_part(Leadership).win("billing", bid, 60)
        fence.hold(math.inf)
        broker.require_part(Leadership).renew("billing", fence, bid.identity, 60)
        broker.require_part(Leadership).ask_to_step_down("billing", fence.epoch, "me")
        broker.require_part(Leadership).shorten("billing", fence.epoch)
        if token == "first":
            redis.delete(Keys().fence("billing"))  # its lease has ended
            assert broker.require_part(Leadership).look("billing").leader is None
    with closing(RedisBroker(url, Config(), fence)) as leader:
        leader.transport.publish([Push("q", job()), Push("other", job()), Push("q", job(), 1.0)])
        leader.admin.pause("q")
    broker.require_part(Leadership).resign("billing", fence, bid.identity)


def _delays(url: str) -> None:
    task = DelayTask("a", 1.0, "remind", "text")
    for layout in ("pyworkers", "delaytk"):
        with closing(RedisPersistence(url, layout=layout)) as persistence:
            persistence.save(task)
            if persistence.claims is not None:
                persistence.claims.beat("one", 60)
                persistence.claims.take("one", "claim", ["a"], 2.0)
                persistence.claims.end("one", "claim", (), [task], ())
                assert persistence.claims.cancel("one", "a")
                persistence.save(task)
            assert persistence.delete("a")


def _ended(broker: RedisBroker, redis: redis_py.Redis, life: ProcessLife) -> None:
    """Tracked jobs that end alone and among others, and that people delete from each place."""
    for jid in ("a", "b"):
        note = NoteState(TrackedJob(jid, "Job"), "completed", "", 60)
        effects = (note,) if jid == "a" else (note, FreeLock("b", "Order:1"))
        life.settle(lambda payload, effects=effects: Done(effects=effects))
    inspector, raw = Inspector(lambda: broker), job(jid="c", track=True)
    tracked = TrackedJob("c", "Job")
    broker.transport.publish([Push("tracked", raw, ties=(RecordTie(tracked),))])
    list(inspector.delete(waiting_in("tracked"), Filter()))
    redis.delete("pyworkers:job:c")
    broker.transport.publish([Push("tracked", raw, 4e9, ties=(RecordTie(tracked),))])
    list(inspector.delete(SCHEDULED, Filter()))
    redis.delete("pyworkers:job:c")
    life.settle(lambda payload: Park("line", raw, effects=(NoteState(tracked, "waiting", "", 60),)))
    list(inspector.delete(PARKED, Filter()))
    redis.delete("pyworkers:job:c")
    group = Group("tracked", "Job", "g")
    broker.transport.publish([Push("tracked", raw, ties=(RecordTie(tracked), GroupMembership(group)))])
    broker.require_part(Groups).delete(group)
    assert [one.jid for one in broker.require_part(Records).ended("cancelled", None, 10).records] == ["c"]
    redis.zadd("pyworkers:ended:completed", {"gone": 1})
    assert {one.jid for one in broker.require_part(Records).ended("completed", None, 10).records} >= {"a", "b"}
    assert redis.zscore("pyworkers:ended:completed", "gone") is None


def _fire(periodic: Periodic) -> None:
    release, one = Release("app", "1"), schedule("nightly", Rule(every=60), {"class": "Job"})
    [state] = periodic.register(release, [one]).states
    push = Push("q", job(), ties=(LockClaim("Job:nightly", "jid", 60),))
    assert periodic.fire(release, Firing("nightly", state.number, state.since, "fired", push=push)).fired is Fired.DONE
    assert periodic.pause("app", "nightly")


def of_groups(broker: Broker, life: ProcessLife) -> None:
    full, group = GroupSettings(60, 0, 1), Group("q", "Job", "one")
    broker.transport.publish(
        [Push("q", job(), ties=(GroupMembership(group),)), Push("q", job(), ties=(GroupMembership(group, full),))]
    )
    joined = Push("q", job(), ties=(GroupMembership(group),))
    life.settle(lambda payload: Done(effects=(PushJobs("jid", (joined, joined)),)))
    broker.require_part(Groups).configure(group, OwnSettings(10))
    broker.require_part(Groups).take_out(group, job(), "cancelled")
    broker.require_part(Groups).make_due(group)
    for number, due in enumerate(broker.require_part(Groups).due("Job", 10).groups):
        broker.require_part(Groups).flush(due, due if due.set else due._replace(set=f"set-{number}"), job())
        ended = EndSet("jid", due._replace(set=due.set or f"set-{number}"), (PushJobs("jid", (joined,)),))
        life.settle(lambda payload, ended=ended: Done(effects=(ended,)))  # type: ignore[misc]


def test_a_script_that_builds_a_key_is_found(own_redis: RedisServer, watch: Watch, tmp_path: Path) -> None:
    (tmp_path / "own.lua").write_text("redis.call('GET', KEYS[1]); return redis.call('GET', KEYS[1] .. ARGV[1])")
    with closing(Connections(own_redis.url)) as connections:
        connections.script(Script(tmp_path / "own.lua"), ["a"], ["b"])  # by EVAL: the server does not know it
        connections.script(Script(tmp_path / "own.lua"), ["a"], ["b"])
        assert watch.undeclared() == ({"?"}, {("?", "ab")})


# --- a node of a cluster that has all slots


@pytest.fixture
def node(server_program: str) -> Iterator[RedisServer]:
    with closing(RedisServer(appendonly="no", cluster_enabled="yes")) as node:
        client = node.client()
        client.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
        assert eventually(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO"))
        yield node


def test_a_daemon_with_a_hash_tag_as_namespace_works_on_a_node_of_a_cluster(node: RedisServer, tmp_path: Path) -> None:
    redis = node.client()
    with Fleet(tmp_path, node.url, redis) as fleet:
        flags = ("-q", "q", "--namespace", "{jobs}", "--metrics", "8", "--process", "one", "--poll-interval", "0.2")
        first = fleet.start(*flags).ready()
        fleet.open("open")
        redis.lpush("{jobs}:queue:q", job("Gated", "open", "oh", jid="failing", retry=1))
        redis.zadd("{jobs}:schedule", {job("Short", jid="later"): 1})
        fleet.await_run("ended", "failing")
        fleet.await_run("began", "later")
        assert eventually(lambda: redis.zcard("{jobs}:retry") == 1), fleet.told()
        redis.lpush("{jobs}:queue:q", job("Gated", "gate", jid="shared"))
        fleet.await_run("began", "shared")
        first.kill()
        second = fleet.start(*flags).ready()
        fleet.await_run("began", "shared", times=2)
        fleet.open("gate")
        fleet.await_run("ended", "shared")
        assert second.stop() == 0
        errors = [line for line in (first.output + second.output).splitlines() if " ERROR: " in line]
        assert all("ERROR: failed: RuntimeError: oh" in line for line in errors)
        assert "CROSSSLOT" not in first.output + second.output
    assert all(key.startswith(b"{jobs}:") for key in redis.scan_iter())


def test_without_a_hash_tag_a_node_of_a_cluster_refuses_the_scripts(node: RedisServer) -> None:
    node.client().lpush("queue:q", job())
    with own_broker(node.url) as broker, pytest.raises(BrokerRefused, match=r"write redis\+cluster://"):
        broker.transport.consume("me", [("q", 1)], 1)
