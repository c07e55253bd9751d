"""A Redis server that refuses a command of the end of a job in a batch or a chain: the job stays, and ends later."""

from __future__ import annotations

import re
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
from goworkers_py.core.errors import BrokerError
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


@pytest.mark.parametrize("with_batch", [False, True])
@pytest.mark.parametrize("schedule", ["denied", "no sorted set"])
def test_a_link_ends_when_the_next_one_can_be_pushed_somewhere(
    broker: RedisBroker, admin: redis_py.Redis, schedule: str, with_batch: bool
) -> None:
    bid = "b" if with_batch else ""
    if with_batch:
        broker.require_part(Batches).open(NewBatch(MEMBER, "", "hold", {}))
    broker.require_part(Chains).push(NewChain("c", [[LinkJob("q", job(jid="1"))], [LinkJob("q", job(jid="2"))]], bid))
    admin.delete("queue:q")
    [first] = held(admin, job(jid="1"))
    end_in_batch = (EndInBatch("1", MEMBER, "succeeded"),) if with_batch else ()
    ended = (first, Done(effects=(EndLink("1", ChainLink("c", 1, 1, ("q",)), b"1", bid=bid), *end_in_batch)))
    admin.set("queue:q", "no list")
    break_schedule(admin, schedule)
    [told] = broker.transport.settle(batch_of(ended))
    assert re.search(r"schedule|zadd", str(told))
    assert admin.lrange("queue:q:me:inprogress", 0, -1) == [job(jid="1")]
    assert admin.hmget("pyworkers:chain:c", "link", "open") == [b"1", b"1"]
    mend_schedule(admin)
    assert broker.transport.settle(batch_of(ended)) == [True]
    assert admin.zcard("schedule") == 1
    assert admin.hmget("pyworkers:chain:c", "link", "open") == [b"2", b"1"]
    if with_batch:
        assert admin.hmget("pyworkers:batch:b", "total", "succeeded") == [b"2", b"1"]


@pytest.mark.parametrize("schedule", ["denied", "no sorted set"])
def test_the_last_link_and_one_that_has_failed_need_no_schedule(
    broker: RedisBroker, admin: redis_py.Redis, schedule: str
) -> None:
    for cid in ("c", "d"):
        broker.require_part(Chains).push(NewChain(cid, [[LinkJob("q", job(jid=cid))]] * (1 if cid == "c" else 2)))
    admin.delete("queue:q")
    last, failed = held(admin, job(jid="c"), job(jid="d"))
    break_schedule(admin, schedule)
    ends = (
        (last, Done(effects=(EndLink("c", ChainLink("c", 1, 1, ("q",)), b"1"),))),
        (failed, Done(effects=(EndLink("d", ChainLink("d", 1, 1, ("q",)), why="dead"),))),
    )
    assert broker.transport.settle(batch_of(*ends)) == [True, True]
    assert [admin.hget(f"pyworkers:chain:{cid}", "state") for cid in "cd"] == [b"ended", b"stopped"]


@pytest.mark.parametrize("schedule", ["denied", "no sorted set"])
def test_a_chain_is_pushed_when_its_first_link_can_be_pushed_somewhere(
    broker: RedisBroker, admin: redis_py.Redis, schedule: str
) -> None:
    chain = NewChain("c", [[LinkJob("q", job(jid="1"))], [LinkJob("q", job(jid="2"))]])
    admin.set("queue:q", "no list")
    break_schedule(admin, schedule)
    with pytest.raises(BrokerError, match=r"schedule|zadd"):
        broker.require_part(Chains).push(chain)
    assert not admin.exists("pyworkers:chain:c")
    mend_schedule(admin)
    assert broker.require_part(Chains).push(chain)
    assert admin.zcard("schedule") == 1


def break_schedule(admin: redis_py.Redis, how: str) -> None:
    if how == "denied":
        allow(admin, "zadd")
    else:
        admin.set("schedule", "no sorted set")


def mend_schedule(admin: redis_py.Redis) -> None:
    allow(admin)
    if admin.type("schedule") == b"string":
        admin.delete("schedule")
