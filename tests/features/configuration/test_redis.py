"""The versions of a configuration in Redis."""

from __future__ import annotations

import pytest
import redis as redis_py

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.features.configuration import redis as configurations
from goworkers_py.features.configuration.contract import Configurations


def test_a_deleted_configuration_leaves_only_its_number(broker: RedisBroker, redis: redis_py.Redis) -> None:
    stored = broker.require_part(Configurations)
    assert stored.push("billing", "[queue:a]\n", "me") == 1
    assert stored.delete("billing")
    assert not stored.delete("billing")
    assert stored.read("billing") is None
    assert stored.versions("billing") == []
    assert len(redis.keys()) == 1
    assert stored.push("billing", "[queue:a]\n", "me") == 2


def test_only_the_last_versions_are_kept(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configurations, "KEPT", 3)
    stored = broker.require_part(Configurations)
    for number in range(5):
        stored.push("billing", f"[queue:a{number}]\n", "me")
    assert [kept.version for kept in stored.versions("billing")] == [3, 4, 5]
