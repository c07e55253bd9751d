"""Groups on a Redis server that refuses some of their commands, or holds groups of another release."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis as redis_py
from access_rules import COMMANDS, PASSWORD, PATTERNS
from apps import job, own_broker
from servers import RedisServer

from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerFull, BrokerRefused
from goworkers_py.features.groups import redis as groups
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import DEFAULT_SETTINGS, Group, GroupMembership, GroupSettings, OwnSettings
from goworkers_py.features.groups.redis_part import entry_of, group_in, group_key, members_key, set_key

GROUP = Group("q", "J", "user:7")
SET = GROUP._replace(set="set-1")


def member(jid: str, settings: GroupSettings = DEFAULT_SETTINGS) -> Push:
    return Push("q", job(jid=jid), ties=(GroupMembership(GROUP, settings),))


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


def test_a_group_of_another_release_is_left_alone(broker: RedisBroker, redis: redis_py.Redis) -> None:
    broker.transport.publish([member("1")])
    [hash_key] = [key for key in redis.keys("pyworkers:group:*") if not key.endswith(b":members")]
    redis.hset(hash_key, mapping={"v": "2", "new": "field"})
    before = redis.hgetall(hash_key)
    with pytest.raises(BrokerRefused, match="written by another release"):
        broker.transport.publish([member("2")])
    broker.require_part(Groups).make_due(GROUP)
    with pytest.raises(BrokerRefused, match="written by another release"):
        broker.require_part(Groups).flush(GROUP, SET, job())
    with pytest.raises(BrokerRefused, match="written by another release"):
        broker.require_part(Groups).configure(GROUP, OwnSettings(1))
    assert redis.hgetall(hash_key) == before
    assert broker.require_part(Groups).members(GROUP, 0, 10) == [job(jid="1")]
    assert redis.llen("queue:q") == 0


def test_fields_of_a_newer_release_stay_in_the_group(broker: RedisBroker, redis: redis_py.Redis) -> None:
    broker.transport.publish([member("1")])
    [hash_key] = [key for key in redis.keys("pyworkers:group:*") if not key.endswith(b":members")]
    redis.hset(hash_key, "new", "field")
    broker.transport.publish([member("2")])
    broker.require_part(Groups).configure(GROUP, OwnSettings(1))
    assert redis.hget(hash_key, "new") == b"field"


def test_without_renamenx_the_members_wait_and_pushes_go_on(own_redis: RedisServer) -> None:
    admin = own_redis.client()
    commands = [word for word in COMMANDS if word != "+renamenx"]
    admin.execute_command("ACL", "SETUSER", "some", "reset", "on", f">{PASSWORD}", *PATTERNS, "&*", *commands)
    with own_broker(own_redis.url.replace("://", f"://some:{PASSWORD}@")) as broker:
        assert broker.transport.publish([member("1", GroupSettings(max_size=1))]) == [Published.PUSHED]
        assert broker.require_part(Groups).due("J", 1).groups == [GROUP]
        with pytest.raises(BrokerRefused, match="renamenx"):
            broker.require_part(Groups).flush(GROUP, SET, job())
        assert broker.require_part(Groups).members(GROUP, 0, 10) == [job(jid="1")]
    assert admin.llen("queue:q") == 0


def test_a_key_of_another_type_refuses_the_push_and_changes_nothing(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.set("pyworkers:groups:J", "damaged")
    with pytest.raises(BrokerRefused):
        broker.transport.publish([Push("q", job()), member("1")])
    assert sorted(redis.keys()) == [b"pyworkers:groups:J"]


def test_a_queue_of_another_type_keeps_the_group_as_it_is(broker: RedisBroker, redis: redis_py.Redis) -> None:
    broker.transport.publish([member("1")])
    broker.require_part(Groups).make_due(GROUP)
    redis.set("queue:q", "damaged")
    with pytest.raises(BrokerRefused):
        broker.require_part(Groups).flush(GROUP, SET, job())
    assert broker.require_part(Groups).members(GROUP, 0, 10) == [job(jid="1")]
    redis.delete("queue:q")
    assert broker.require_part(Groups).flush(GROUP, SET, job()) == 1


def test_a_server_without_memory_refuses_a_member_and_keeps_the_others(own_redis: RedisServer) -> None:
    admin = own_redis.client()
    with own_broker(own_redis.url) as broker:
        broker.transport.publish([member("1")])
        admin.config_set("maxmemory", "1")
        for pushes in ([member("2")], [Push("q", job()), member("2")], [member("2"), Push("q", job(), 4e9, id="1")]):
            with pytest.raises(BrokerFull):
                broker.transport.publish(pushes)
        admin.config_set("maxmemory", "0")
        assert broker.require_part(Groups).members(GROUP, 0, 10) == [job(jid="1")]
        entry = broker.require_part(Groups).entry(GROUP)
        assert entry is not None
        assert entry.size == 1


def test_entries_that_this_release_cannot_read_do_not_hide_a_group(broker: RedisBroker, redis: redis_py.Redis) -> None:
    broker.transport.publish([member("1")])
    redis.zadd("pyworkers:groups:J", {f"later:{number}": number for number in range(7)})
    told = broker.require_part(Groups).due("J", 2)
    assert told.groups == []
    assert told.next_in_s is not None
    assert told.next_in_s > 0
    broker.require_part(Groups).make_due(GROUP)
    assert broker.require_part(Groups).due("J", 2) == ([GROUP], None)
    assert broker.require_part(Groups).due("J", 2, passed=1) == ([], None)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_all_groups_of_a_class_are_listed_page_by_page(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(groups, "PAGE", 2)
    several = [GROUP._replace(name=str(number)) for number in range(count)]
    broker.transport.publish([Push("q", job(), ties=(GroupMembership(group, DEFAULT_SETTINGS),)) for group in several])
    assert sorted(entry.group.name for entry in broker.require_part(Groups).entries()) == [
        group.name for group in several
    ]


@pytest.mark.parametrize("name", ["a", 'q"uote', "sp ace", "ä\n\x00"])
def test_the_entry_of_a_group_or_a_set_names_it(name: str) -> None:
    for group in (Group(name, "J", name), Group(name, "J", name, "set-1")):
        assert group_in(entry_of(group), "J") == group


@pytest.mark.parametrize("entry", ["", "x", "[]", "[1, 2]", '{"a": 1}', '["q"]', "null"])
def test_an_entry_that_this_release_cannot_read_is_no_group(entry: str) -> None:
    assert group_in(entry, "J") is None


def test_a_group_without_members_is_forgotten_where_del_is_denied(own_redis: RedisServer) -> None:
    admin = own_redis.client()
    commands = [*COMMANDS, "-del"]
    admin.execute_command("ACL", "SETUSER", "some", "reset", "on", f">{PASSWORD}", *PATTERNS, "&*", *commands)
    with own_broker(own_redis.url.replace("://", f"://some:{PASSWORD}@")) as broker:
        broker.transport.publish([member("1")])
        broker.require_part(Groups).make_due(GROUP)
        assert broker.require_part(Groups).flush(GROUP, SET, job()) == 1
    assert [key for key in admin.keys("pyworkers:group:*") if admin.type(key) == b"hash"] == []


def test_groups_whose_names_join_to_the_same_text_have_different_keys() -> None:
    names = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a:", "b", "c")]
    assert len({group_key(Keys(), Group(*of_group)) for of_group in names}) == 4


def test_the_members_of_a_set_are_under_its_name() -> None:
    assert members_key(Keys(), GROUP._replace(set="SET")) == set_key(Keys(), "SET")
