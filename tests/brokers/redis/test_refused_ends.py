"""A Redis server that refuses a command of the end of a job in a batch or a chain: the job stays, and ends later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis as redis_py
from access_rules import COMMANDS, PASSWORD, PATTERNS
from apps import job, own_broker
from servers import RedisServer
from verbs import batch_of

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.outcome import DONE, Done
from goworkers_py.features.batches.batch import BatchTie, Callback, Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.chains.chain import ChainLink, LinkJob, NewChain
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.chains.effects import EndLink

MEMBER = Membership("b", ("cb",))
DENIED = ["hset", "hsetnx", "hincrby", "hdel"]


@pytest.fixture(scope="module")
def server(server_program: str) -> Iterator[RedisServer]:
    with closing(RedisServer(appendonly="no")) as server:
        yield server


@pytest.fixture
def admin(server: RedisServer) -> redis_py.Redis:
    admin = server.client()
    admin.flushall()
    allow(admin)
    return admin


@pytest.fixture
def broker(server: RedisServer, admin: redis_py.Redis) -> Iterator[RedisBroker]:
    with own_broker(server.url.replace("//", f"//walled:{PASSWORD}@")) as broker:
        yield broker


def allow(admin: redis_py.Redis, *without: str) -> None:
    commands = [word for word in COMMANDS if word.lstrip("+") not in without]
    admin.execute_command("ACL", "SETUSER", "walled", "reset", "on", f">{PASSWORD}", *PATTERNS, "&*", *commands)


def held(admin: redis_py.Redis, *payloads: bytes) -> list[Delivery]:
    admin.lpush("queue:q:me:inprogress", *payloads)
    return [Delivery(payload, "q", "me") for payload in payloads]


@pytest.mark.parametrize("denied", DENIED)
def test_a_job_of_a_batch_ends_when_its_end_can_be_counted(
    broker: RedisBroker, admin: redis_py.Redis, denied: str
) -> None:
    broker.require_part(Batches).open(NewBatch(MEMBER, "", "hold", {"success": Callback("cb", job(jid="callback"))}))
    broker.transport.publish([Push("q", job(jid="1"), ties=(BatchTie("b"),))])
    broker.require_part(Batches).let_go("b", "hold", ("cb",))
    plain, member = held(admin, job(jid="plain"), job(jid="1"))
    ended = (member, Done(effects=(EndInBatch("1", MEMBER, "succeeded"),)))
    allow(admin, denied)
    told = broker.transport.settle(batch_of((plain, DONE), ended))
    assert told[0] is True
    assert denied in str(told[1]).lower()
    assert admin.lrange("queue:q:me:inprogress", 0, -1) == [job(jid="1")]
    assert admin.llen("queue:cb") == 0
    allow(admin)
    assert broker.transport.settle(batch_of(ended)) == [True]
    assert admin.llen("queue:cb") == 1
    assert admin.hexists("pyworkers:batch:b", "ended")


@pytest.mark.parametrize("denied", DENIED)
def test_a_link_ends_when_the_next_one_can_be_begun(broker: RedisBroker, admin: redis_py.Redis, denied: str) -> None:
    links = [[LinkJob("q", job(jid=jid))] for jid in ("1", "2", "3")]
    broker.require_part(Chains).push(NewChain("c", links))
    admin.delete("queue:q")
    [first] = held(admin, job(jid="1"))
    ended = (first, Done(effects=(EndLink("1", ChainLink("c", 1, 1, ("q",)), b"1"),)))
    allow(admin, denied)
    [told] = broker.transport.settle(batch_of(ended))
    assert denied in str(told).lower()
    assert admin.lrange("queue:q:me:inprogress", 0, -1) == [job(jid="1")]
    assert admin.llen("queue:q") == 0
    allow(admin)
    assert broker.transport.settle(batch_of(ended)) == [True]
    assert admin.llen("queue:q") == 1
    assert admin.hget("pyworkers:chain:c", "link") == b"2"
