"""Limits with very many keys: no command reads all lines at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis as redis_py
from apps import job, own_broker
from proxy import Proxy
from servers import RedisServer
from verbs import KEYS, batch_of

from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.driver.exchange import Argument, Script
from goworkers_py.brokers.redis.queues import line_entry, lines
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import Done
from goworkers_py.features.limits import redis as limits
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.effects import LeaveSlot
from goworkers_py.features.limits.limit import Begins, LimitSettings, Looked, Rate, Slot
from goworkers_py.features.limits.redis_part import slot_arguments
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import Begin, Begun, OwnedLock


def test_all_lines_are_found_in_pages(redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DUE_PAGE", 3)
    monkeypatch.setattr(lines, "PAGE", 3)
    slots = {Slot("order", f"k{number}"): float(number // 8) for number in range(30)}  # eight are due at a time
    for slot, at in slots.items():
        redis.zadd("pyworkers:limits:due", {slot.line: at})
        redis.sadd("pyworkers:lines", slot.line)
        redis.lpush(f"pyworkers:line:{slot.line}", b"entry")
    with own_broker(redis_url) as broker:
        assert set(broker.require_part(Limits).due(100).slots) == set(slots)
        assert len(broker.require_part(Limits).due(20).slots) == 20
        assert broker.require_part(Limits).due(20).next_in_s == 0.0
        assert {line.name for line in broker.admin.lines()} == {slot.line for slot in slots}
        broker.require_part(Limits).unset("order")
        assert set(broker.require_part(Limits).due(100).slots) == set(slots)
        assert len({at for _, at in redis.zrange("pyworkers:limits:due", 0, -1, withscores=True)}) == len(slots)


def test_names_that_this_release_cannot_read_do_not_hide_a_line(redis_url: str, redis: redis_py.Redis) -> None:
    redis.zadd("pyworkers:limits:due", {f"later:{number}": number for number in range(7)} | {"limit:order": 8})
    with own_broker(redis_url) as broker:
        told = broker.require_part(Limits).due(2)
    assert (told.slots, told.next_in_s) == ([Slot("order")], None)


def test_lines_are_read_without_the_right_to_read_them_in_pages(redis_url: str, redis: redis_py.Redis) -> None:
    redis.sadd("pyworkers:lines", "limit:order")
    redis.lpush("pyworkers:line:limit:order", b"entry")
    with own_broker(redis_url) as broker:
        redis.execute_command("ACL", "SETUSER", "default", "-sscan")
        try:
            assert [line.name for line in broker.admin.lines()] == ["limit:order"]
        finally:
            redis.execute_command("ACL", "SETUSER", "default", "+sscan")


def test_entries_of_another_release_do_not_hide_the_queue_of_the_oldest_job(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("order", 1)])
        entries = [line_entry.written(job(jid="1"), "q", 1.0, jid="1"), b'{"v":2}\n', b"broken"]
        redis.rpush("pyworkers:line:limit:order", *entries)
        assert broker.require_part(Limits).look(Slot("order")) == Looked(1, 2)
    assert redis.lrange("queue:q", 0, -1) == [job(jid="1")]


def test_a_job_that_a_rate_has_let_go_does_not_keep_its_key_for_ever(redis_url: str, redis: redis_py.Redis) -> None:
    """Another program may have deleted it. A place that counts stays."""
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare(
            [LimitSettings("api", rate=Rate(1, 60, 2)), LimitSettings("one", 2, Rate(1, 60, 2))]
        )
        for slot in (Slot("api", "k1"), Slot("one", "k1")):
            redis.rpush(f"pyworkers:line:{slot.line}", *2 * [line_entry.written(job(jid="1"), "q", 1.0, jid="1")])
            assert broker.require_part(Limits).look(slot).let_go == 2
    assert 86_400 < redis.ttl("pyworkers:slot:api:k1") <= 86_520
    assert redis.ttl("pyworkers:slot:one:k1") == -1


def test_a_place_has_no_end_where_its_limit_was_only_a_rate_before(redis_url: str, redis: redis_py.Redis) -> None:
    redis.hset("pyworkers:slot:one", mapping={"v": 1, "tat": 1})
    redis.expire("pyworkers:slot:one", 100)
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("one", 1)])
        assert broker.require_part(Limits).take(Slot("one"), "block", "owner") is True
    assert redis.ttl("pyworkers:slot:one") == -1


def test_nothing_is_left_of_a_slot_without_jobs_but_the_time_of_its_rate(redis_url: str, redis: redis_py.Redis) -> None:
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("one", 1), LimitSettings("api", 1, Rate(1, 60))])
        for slot in (Slot("one"), Slot("api")):
            broker.require_part(Limits).take(slot, "block", "owner")
            broker.require_part(Limits).leave(slot, "block")
    assert not redis.exists("pyworkers:slot:one")
    assert 50 < redis.ttl("pyworkers:slot:api") <= 61


def test_a_line_without_jobs_is_listed_no_more_and_the_queue_of_the_last_one_is(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("order", 1)])
        redis.zadd("pyworkers:limits:due", {"limit:order": 1})
        redis.sadd("pyworkers:lines", "limit:order")
        redis.rpush("pyworkers:line:limit:order", line_entry.written(job(jid="1"), "q", 1.0, jid="1"))
        assert broker.require_part(Limits).look(Slot("order")).let_go == 1
    assert not redis.exists("pyworkers:limits:due", "pyworkers:lines", "pyworkers:line:limit:order")
    assert redis.smembers("queues") == {b"q"}


def test_the_first_job_of_a_line_is_looked_at_soon(redis_url: str, redis: redis_py.Redis) -> None:
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("one", 1)])
        broker.require_part(Limits).take(Slot("one"), "block", "owner")
        broker.transport.publish([Push("q", job())])
        [taken] = broker.transport.consume("me", [("q", 1)], 1)
        broker.require_part(Limits).begin(SlotWish([Slot("one")], "1", taken, taken.payload, ["q"]))
        next_in_s = broker.require_part(Limits).due(1).next_in_s
    assert next_in_s is None or next_in_s <= 1


def test_a_block_keeps_its_turn_when_another_asks_within_a_moment(redis_url: str, redis: redis_py.Redis) -> None:
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("one", 1)])
        broker.require_part(Limits).take(Slot("one"), "holder", "owner")
        places, numbers = "pyworkers:slot:one", dict[str, int]()
        arguments = slot_arguments(Slot("one"), KEYS, lambda key: numbers.setdefault(key, len(numbers) + 1), ())
        asked = [KEYS.receipt("begin:owner"), KEYS.queues, KEYS.nothing, KEYS.nothing, *numbers]
        begin = redis.register_script(limits._begin_script(frozenset()).source)
        for _ in range(100):
            with redis.pipeline() as pipe:
                for block in ("block-1", "block-2"):
                    begin(asked, [0, 60, block, "owner", "", "", "", 1, *arguments], client=pipe)
                pipe.hget(places, "b")
                pipe.hdel(places, "b")
                assert pipe.execute()[2].startswith(b"block-1 ")


def test_a_clock_that_was_set_back_stalls_neither_a_rate_nor_a_line(redis_url: str, redis: redis_py.Redis) -> None:
    later = redis.time()[0] + 3_600
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("api", rate=Rate(1, 60))])
        for key, told in (("k1", {"tat": later}), ("k2", {"b": f"block-1 {later} {later + 2}"})):
            slot = Slot("api", key)
            redis.hset(f"pyworkers:slot:{slot.id}", mapping={"v": 1, **told})
            redis.rpush(f"pyworkers:line:{slot.line}", line_entry.written(job(jid="1"), "q", later + 5, jid="1"))
            assert broker.require_part(Limits).look(slot).let_go == 1


def test_an_entry_that_a_look_cannot_read_is_not_looked_at_again_and_again(
    redis_url: str, redis: redis_py.Redis
) -> None:
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("order", 1)])
        redis.rpush("pyworkers:line:limit:order", b'{"v":1,"queue":"q","jid":"1"}\n' + job(jid="1"))
        assert broker.require_part(Limits).look(Slot("order")) == Looked(0, 1)
        next_in_s = broker.require_part(Limits).due(10).next_in_s
    assert next_in_s is not None
    assert next_in_s > 5


def test_an_end_does_not_walk_its_line(own_redis: RedisServer) -> None:
    """LREM reads all entries where it finds none."""
    redis = own_redis.client()
    with own_broker(own_redis.url) as broker:
        broker.require_part(Limits).declare([LimitSettings("order", 1)])
        redis.rpush("pyworkers:line:limit:order", *3 * [line_entry.written(job(jid="1"), "q", 1.0, jid="1")])
        with redis.monitor() as monitor:
            assert broker.require_part(Limits).look(Slot("order")) == Looked(1, 2)
            own_redis.client().ping()
            seen = list(iter(lambda: monitor.next_command()["command"], "PING"))
    assert [told for told in seen if told.startswith("LTRIM")]
    assert not [told for told in seen if told.startswith("LREM")]


def test_where_a_removal_is_denied_the_jobs_that_have_left_the_line_come_to_their_queue(
    redis_url: str, redis: redis_py.Redis
) -> None:
    jobs = [job(jid=str(number)) for number in range(2)]
    second, first = (line_entry.written(one, "q", 1.0, jid=str(number)) for number, one in enumerate(jobs))
    redis.rpush("pyworkers:line:limit:order", second, b"broken", first)
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("order", 2)])
        redis.execute_command("ACL", "SETUSER", "default", "-lrem")
        try:
            assert broker.require_part(Limits).look(Slot("order"), ["q"], most=2) == Looked(1, 2)
            with pytest.raises(BrokerRefused, match="LREM"):
                broker.require_part(Limits).look(Slot("order"), ["q"], most=2)
        finally:
            redis.execute_command("ACL", "SETUSER", "default", "+lrem")
        assert redis.lrange("queue:q", 0, -1) == [jobs[1]]
        assert [one.jid for one in broker.require_part(Limits).holders(Slot("order"))] == ["1"]


# --- a begin that arrives late

ONE, API = Slot("one"), Slot("api")
LIST = "queue:q:me:inprogress"
RAW = job(jid="1")


def wish(raw: bytes = RAW, jid: str = "1", *slots: Slot) -> SlotWish:
    return SlotWish(slots or (ONE,), jid, Delivery(raw, "q", "me"), raw, ("q",))


class Late:
    """The first copy of a begin, whose connection was cut: it comes to the server when the test says so."""

    def __init__(self, broker: RedisBroker, proxy: Proxy, redis: redis_py.Redis, begin: Callable[[], object]) -> None:
        self._redis = redis
        self._sent: list[tuple[Script, Sequence[str], Sequence[Argument]]] = []
        script = broker.connections.script

        def sending(*sent: Any) -> Any:
            self._sent.append(sent)
            return script(*sent)

        proxy.drop_command(b"EVALSHA")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker.connections, "script", sending)
            with pytest.raises(BrokerUnavailable):
                begin()

    def arrives(self) -> list[bytes]:
        [(script, keys, arguments)] = self._sent
        told: list[bytes] = self._redis.eval(script.source, len(keys), *keys, *arguments)
        return told


@pytest.fixture
def behind_a_proxy(redis_server: str, redis_url: str) -> Iterator[tuple[RedisBroker, Proxy]]:
    with Proxy(urlsplit(redis_url).port or 0) as proxy, own_broker(proxy.url + urlsplit(redis_url).path) as broker:
        broker.require_part(Limits).declare([LimitSettings("one", 1), LimitSettings("api", rate=Rate(1, 600))])
        yield broker, proxy


def test_a_begin_that_arrives_late_does_not_move_a_job_that_runs_into_a_line(
    behind_a_proxy: tuple[RedisBroker, Proxy], redis: redis_py.Redis
) -> None:
    """A rate keeps no place by which the script knows that the job runs."""
    broker, proxy = behind_a_proxy
    redis.lpush(LIST, RAW)
    late = Late(broker, proxy, redis, lambda: broker.require_part(Limits).begin(wish(RAW, "1", API)))
    assert (
        broker.require_part(Limits).begin(wish(RAW, "1", API)) == Begins()
    )  # requeued, fetched again, and it runs now
    assert late.arrives() == [b"late", 1]
    assert redis.lrange(LIST, 0, -1) == [RAW]


def test_a_begin_that_arrives_late_spares_an_equal_job(
    behind_a_proxy: tuple[RedisBroker, Proxy], redis: redis_py.Redis
) -> None:
    broker, proxy = behind_a_proxy
    redis.lpush(LIST, RAW, job(jid="2"))
    late = Late(broker, proxy, redis, lambda: broker.require_part(Limits).begin(wish()))
    assert broker.require_part(Limits).begin(wish()) == Begins()
    end = LeaveSlot("1", ONE, ("q",))
    assert broker.transport.settle(batch_of((Delivery(RAW, "q", "me"), Done(effects=(end,))))) == [True]
    redis.lpush(LIST, RAW)
    assert broker.require_part(Limits).begin(wish(job(jid="2"), "2")) == Begins()
    assert late.arrives() == [b"late", 1]
    assert redis.lrange(LIST, 0, -1) == [RAW, job(jid="2")]


def test_a_begin_that_arrives_late_gives_no_place_to_a_job_that_has_ended(
    behind_a_proxy: tuple[RedisBroker, Proxy], redis: redis_py.Redis
) -> None:
    broker, proxy = behind_a_proxy
    redis.lpush(LIST, RAW)
    late = Late(broker, proxy, redis, lambda: broker.require_part(Limits).begin(wish()))
    redis.delete(LIST)  # requeued, and another process has run it
    assert late.arrives() == [b"lost"]
    assert [*broker.require_part(Limits).holders(ONE)] == []


def test_a_begin_whose_neighbour_had_no_answer_asks_again(
    behind_a_proxy: tuple[RedisBroker, Proxy], redis: redis_py.Redis, redis_url: str
) -> None:
    broker, proxy = behind_a_proxy
    redis.lpush(LIST, RAW)
    Late(broker, proxy, redis, lambda: broker.require_part(Limits).begin(wish()))
    assert broker.require_part(Limits).begin(wish()) == Begins()
    with own_broker(redis_url) as other:  # as a thread that had sent its begin before that
        assert other.require_part(Limits).begin(wish()) == Begins()


@pytest.mark.parametrize("ended", [False, True])
def test_a_lock_begin_that_arrives_late_gives_the_lock_of_an_ended_job_no_owner(
    behind_a_proxy: tuple[RedisBroker, Proxy], redis: redis_py.Redis, ended: bool
) -> None:
    """The job was asked for again, or was recovered, before it ended. A lock without a time to live would stay."""
    broker, proxy = behind_a_proxy
    redis.lpush(LIST, RAW)
    begin = Begin("Order:1", "1", "q", 30, take=True, owner="me", fetched=("q", RAW))
    late = Late(broker, proxy, redis, lambda: broker.require_part(Locks).begin(begin))
    if ended:
        redis.delete(LIST)
    else:
        assert broker.require_part(Locks).begin(begin) == Begun()
        assert redis.ttl("pyworkers:lock:Order:1") == -1
    broker.require_part(Locks).free("Order:1")
    assert late.arrives() == ([b"run", b""] if ended else [b"late", 1])
    left_s = redis.ttl("pyworkers:lock:Order:1")
    assert 0 < left_s <= 30 if ended else left_s == -2


def test_an_owner_that_arrives_late_does_not_keep_the_lock_of_a_job_that_waits(
    behind_a_proxy: tuple[RedisBroker, Proxy], redis: redis_py.Redis
) -> None:
    broker, proxy = behind_a_proxy
    broker.require_part(Locks).begin(Begin("Order:1", "1", "q", 30, take=True))
    owned = [OwnedLock("Order:1", "1", 30, "me")]
    late = Late(broker, proxy, redis, lambda: broker.require_part(Locks).own(owned))
    broker.require_part(Locks).disown(owned)
    assert late.arrives() == [b"late", 1]
    assert 0 < redis.ttl("pyworkers:lock:Order:1") <= 30


def test_a_block_that_has_left_takes_no_place_by_a_begin_that_arrives_late(
    behind_a_proxy: tuple[RedisBroker, Proxy], redis: redis_py.Redis
) -> None:
    broker, proxy = behind_a_proxy
    late = Late(broker, proxy, redis, lambda: broker.require_part(Limits).take(ONE, "block-1", "me"))
    broker.require_part(Limits).leave(ONE, "block-1", owner="me")
    assert late.arrives() == [b"late", 1]
    assert broker.require_part(Limits).holders(ONE) == []


@pytest.mark.parametrize("value", [" 1790000000.000000 ", "host:1:00000000000b 1790000000.000000 "])
def test_a_strict_limit_that_a_dead_block_had_locked_for_ever_goes_on(
    redis_url: str, redis: redis_py.Redis, value: str
) -> None:
    """Release 0.4.0 kept the place of the block for a recovered job, without an owner."""
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("order", 1, holds=True)])
        redis.hset("pyworkers:slot:order", mapping={"v": "1", "s:block-1": value})
        assert broker.require_part(Limits).take(Slot("order"), "block-2", "host:1:00000000000c") is False
        broker.require_part(Limits).look(Slot("order"))
        assert broker.require_part(Limits).holders(Slot("order")) == []


def test_a_block_of_release_0_4_0_lives_while_it_has_a_lease(redis_url: str, redis: redis_py.Redis) -> None:
    owner = "host:1:00000000000b"
    with own_broker(redis_url) as broker:
        broker.require_part(Limits).declare([LimitSettings("order", 1, holds=True)])
        redis.set(f"pyworkers:lease:{owner}", "block")
        assert broker.require_part(Limits).take(Slot("order"), "block-1", owner) is True
        broker.require_part(Limits).look(Slot("order"))
        assert len(broker.require_part(Limits).holders(Slot("order"))) == 1
        redis.delete(f"pyworkers:lease:{owner}")
        broker.require_part(Limits).look(Slot("order"))
        assert broker.require_part(Limits).holders(Slot("order")) == []
