"""Watches over all shards: one that is away when a watch begins joins when it comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import Process, job
from harness_shards import ShardServers
from waiting import eventually

from goworkers_py.brokers.shards.placement import Placement
from goworkers_py.config.options import Config
from goworkers_py.core.effect import NoteState, Push, Tracked
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.outcome import Done

JID = next(jid for jid in (f"{number:08x}" for number in range(100)) if Placement(["a", "b", "c"]).home(jid) == 1)

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]


@pytest.fixture
def me(servers: ShardServers) -> Iterator[Process]:
    process = Process(Config(broker=servers.address)).begin()
    yield process
    process.broker.close()


def take_away(me: Process, servers: ShardServers) -> None:
    servers.servers[1].kill()
    me.beat()
    assert me.broker._shards.all[1].away


def come_back(me: Process, servers: ShardServers) -> None:
    servers.servers[1].start()
    assert eventually(lambda: not me.broker._shards.all[1].away)


def test_a_watch_that_began_while_the_shard_was_away_tells_the_end_of_a_job_there(
    me: Process, servers: ShardServers
) -> None:
    told: list[int] = []
    me.broker.transport.publish([Push("q", job(JID), track=Tracked(JID, "Job"))])
    take_away(me, servers)
    end = me.broker.store.watch(JID, lambda: told.append(1))
    assert eventually(lambda: len(told) == 1), "the watch has begun on the others"
    come_back(me, servers)
    assert eventually(lambda: len(told) == 2), "it begins there, and something may have happened before"
    me.beat()
    [one] = me.consume(1)
    effect = NoteState(Tracked(JID, "Job"), "completed", "it ended", 60)
    assert me.settle((one, Done(effects=(effect,)))) == [True]
    assert eventually(lambda: len(told) == 3)
    end()


def test_a_watch_that_has_ended_does_not_begin_on_a_shard_that_comes_back(me: Process, servers: ShardServers) -> None:
    told: list[int] = []
    take_away(me, servers)
    end = me.broker.store.watch(JID, lambda: told.append(1))
    assert eventually(lambda: len(told) == 1), "the watch has begun on the others, which tell nothing late"
    end()
    assert me.broker._shards.all[1]._when_back == []
    come_back(me, servers)
    assert not eventually(lambda: len(told) > 1, 1)


def test_a_watch_begins_although_a_shard_fails_in_that_moment(me: Process, servers: ShardServers) -> None:
    told: list[int] = []
    shard = me.broker._shards.all[1]
    watch = shard.broker.store.watch
    shard.broker.store.watch = lambda jid, changed: me.broker._shards.all[1].ask(_fails)
    end = me.broker.store.watch(JID, lambda: told.append(1))
    shard.broker.store.watch = watch
    assert eventually(lambda: len(told) == 2), "on the others, and when the shard is back"
    end()


def _fails(broker: object) -> None:
    raise BrokerUnavailable("away")
