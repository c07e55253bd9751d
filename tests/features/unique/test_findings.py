"""The doctor finds locks whose process is dead."""

from __future__ import annotations

import json

import redis as redis_py

from goworkers_py.admin.doctor import Doctor, Finding
from goworkers_py.admin.inspector import Inspector
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import Begin

DEAD = json.dumps({"queues": {"q": 1}, "trial": "", "origin": {"machine": "elsewhere"}})


def findings(inspector: Inspector) -> list[Finding]:
    return [finding for finding in Doctor(inspector, None).findings() if finding.check == "locks"]


def test_a_lock_of_a_process_that_is_dead_is_found(inspector: Inspector, redis: redis_py.Redis) -> None:
    inspector._broker.require_part(Locks).begin(Begin("Order:1", "1", "q", 60, take=True, owner="dead:1:aaaaaaaaaaaa"))
    assert findings(inspector) == []  # nobody has died: the locks are not read
    for registry in "pyworkers:owners", "pyworkers:gone":
        redis.hset(registry, "dead:1:aaaaaaaaaaaa", DEAD)
    [found] = findings(inspector)
    assert found.what == "lock Order:1: its process dead:1:aaaaaaaaaaaa is dead or unknown, and job 1 holds it"
    assert found.todo.endswith("pyworkers locks free Order:1")


def test_a_lock_of_a_process_that_lives_is_not_found(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.hset("pyworkers:owners", "other:1:aaaaaaaaaaaa", DEAD)
    inspector._broker.require_part(Locks).begin(Begin("Order:1", "1", "q", 60, take=True, owner="other:1:aaaaaaaaaaaa"))
    assert findings(inspector) == []
