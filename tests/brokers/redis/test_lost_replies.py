"""Jobs in progress that their process does not know: the reply of their fetch was lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis as redis_py
from apps import own_broker

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.queues import transport as module
from goworkers_py.core.delivery import Delivery

LIST = "queue:mail:me:inprogress"


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


def deliveries(names: str, identity: str = "me") -> list[Delivery]:
    return [Delivery(name.encode(), "mail", identity) for name in names]


def lost(broker: RedisBroker, known: list[Delivery], thorough: bool = True) -> str:
    found = broker.transport.lost_replies("me", "mail", known, thorough)
    assert all((delivery.queue, delivery.identity) == ("mail", "me") for delivery in found)
    return b"".join(delivery.payload for delivery in found).decode()


@pytest.mark.parametrize(
    ("listed", "known", "beyond"),
    [
        ("", "", ""),
        ("ab", "ab", ""),
        ("abc", "b", "ac"),
        ("aab", "ab", "a"),
        ("aaa", "a", "aa"),
        ("aaa", "aa", "a"),
        ("aa", "aa", ""),
        ("b", "ab", ""),
        ("ab", "", "ab"),
    ],
)
def test_payloads_in_the_list_that_are_not_known_are_lost_replies(
    listed: str, known: str, beyond: str, broker: RedisBroker, redis: redis_py.Redis
) -> None:
    if listed:
        redis.lpush(LIST, *listed)
    assert lost(broker, deliveries(known)) == beyond


def test_known_deliveries_of_an_older_identity_are_not_compared(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.lpush(LIST, "a")
    assert lost(broker, deliveries("a", identity="me of before")) == "a"


def test_a_long_list_is_read_only_when_it_holds_more_than_known_or_after_an_error(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_READ_UNCOUNTED", 2)
    redis.lpush(LIST, *"abx")
    known = deliveries("abc")  # c is just being settled and hides x
    assert lost(broker, known, thorough=False) == ""
    assert lost(broker, known, thorough=True) == "x"
    redis.lpush(LIST, "y")
    assert lost(broker, known, thorough=False) == "xy"
