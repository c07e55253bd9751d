"""Lists that are merged from several shards: jobs that have ended, and what people have changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import Process, job
from harness_shards import ShardServers
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.contracts.store import EndedPage
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.config.options import Config
from goworkers_py.core.effect import NoteState, Tracked
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.outcome import Done
from goworkers_py.wire.audit_record import written_entry

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]


@pytest.fixture
def me(servers: ShardServers) -> Iterator[Process]:
    process = Process(Config(broker=servers.address)).begin()
    yield process
    process.broker.close()


def end(me: Process, jid: str, life_s: int = 60) -> None:
    me.broker.transport.publish([Push("q", job(jid, track=True), track=Tracked(jid, "Job"))])
    [one] = me.consume(1)
    me.settle((one, Done(effects=(NoteState(Tracked(jid, ""), "completed", "", life_s),))))


def pages(me: Process, limit: int) -> list[EndedPage]:
    found = [me.broker.store.ended("completed", None, limit)]
    while found[-1].next is not None:
        found.append(me.broker.store.ended("completed", found[-1].next, limit))
    return found


def test_the_jobs_of_all_shards_are_in_one_order_and_each_is_on_one_page(me: Process) -> None:
    jids = [f"{number:08x}" for number in range(20)]
    for jid in jids:
        end(me, jid)
    told = pages(me, 3)
    found = [one for page in told for one in page.records]
    assert sorted(one.jid for one in found) == jids
    assert [one.at for one in found] == sorted((one.at for one in found), reverse=True)
    assert all(len(page.records) <= 3 for page in told)
    assert told[0].total == 20


def test_a_shard_whose_entries_tell_nothing_hides_no_job_of_another(me: Process, servers: ShardServers) -> None:
    jids = [f"{number:08x}" for number in range(12)]
    for jid in jids:
        end(me, jid)
    with servers.servers[1].client() as client:
        newest = client.zrange("pyworkers:ended:completed", 0, -1, withscores=True)[-1][1]
        client.zadd("pyworkers:ended:completed", {f"gone-{number}": newest + 1 + number for number in range(8)})
    found = [one.jid for page in pages(me, 3) for one in page.records]
    assert sorted(found) == jids


def test_actions_are_read_from_all_shards_and_noted_on_the_next_one_while_theirs_is_away(
    me: Process, servers: ShardServers
) -> None:
    calls = me.broker.calls
    for number in range(4):
        calls.note_action(written_entry("ada", "retry", "", number, ""))
    home = next(number for number, server in enumerate(servers.servers) if _has_actions(server))
    shard = me.broker.transport._shards.all[home]
    servers.servers[home].pause()
    assert calls.actions("", 10) == []
    calls.note_action(written_entry("ada", "retry", "", 4, ""))
    assert [one.count for one in calls.actions("", 10)] == [4]
    servers.servers[home].resume()
    assert eventually(lambda: not shard.away)
    found, position = list[int | None](), ""
    while page := calls.actions(position, 2):
        found += [one.count for one in page]
        position = page[-1].position
    assert found == [4, 3, 2, 1, 0]
    for wrong in ("x", "[1]"):
        with pytest.raises(ArgumentError, match="is not the position of an entry"):
            calls.actions(wrong, 10)


def _has_actions(server: RedisServer) -> bool:
    with server.client() as client:
        return bool(client.exists("pyworkers:audit"))
