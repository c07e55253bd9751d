"""The warning at the start about a server that may evict jobs."""

from __future__ import annotations

import pytest
from apps import own_app, working
from proxy import Proxy
from servers import RedisServer

from goworkers_py.config.options import QueueConfig


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "maxmemory" in record.getMessage()]


def start(redis_url: str) -> None:
    with own_app(redis_url, QueueConfig("q")) as app, working(app):
        pass


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "allkeys-random", "volatile-ttl"])
def test_a_policy_that_evicts_is_one_warning(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    own_redis.client().config_set("maxmemory-policy", policy)
    start(own_redis.url)
    what = f"the server may evict jobs when its memory is full (maxmemory-policy {policy})"
    assert warnings(caplog) == [f"{what}: set maxmemory-policy noeviction"]


def test_noeviction_is_no_warning(own_redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    start(own_redis.url)
    assert not warnings(caplog)


def test_there_is_no_warning_when_the_server_does_not_say_its_policy(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    admin = own_redis.client()
    admin.config_set("maxmemory-policy", "allkeys-lru")
    admin.execute_command("ACL", "SETUSER", "worker", "on", ">secret", "~*", "+@all", "-info", "-config")
    start(own_redis.url.replace("//", "//worker:secret@"))
    assert not warnings(caplog)


def test_a_server_that_is_lost_during_the_check_does_not_prevent_the_start(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(own_redis.port) as proxy:
        proxy.drop_reply_of(b"INFO")
        start(proxy.url)
        assert proxy.hits == 1
    assert not warnings(caplog)
