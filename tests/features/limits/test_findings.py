"""The doctor finds places of limits whose holder is dead."""

from __future__ import annotations

import json
import time

import redis as redis_py
from apps import job

from goworkers_py.admin.doctor import Doctor, Finding
from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.redis.fleet.owner_entry import DECLARED_DEAD, OwnerEntry
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import LimitSettings, Slot

DEAD = json.dumps({"queues": {"q": 1}, "trial": "", "origin": {"machine": "elsewhere"}})


def findings(inspector: Inspector) -> list[Finding]:
    return [finding for finding in Doctor(inspector, None).findings() if finding.check == "limits"]


def test_a_place_of_a_holder_that_nobody_knows_is_found_with_those_who_wait(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    inspector._broker.require_part(Limits).declare([LimitSettings("order", 1), LimitSettings("free", 1)])
    for name in "order", "free":
        redis.hset(f"pyworkers:slot:{name}", mapping={"v": "1", "s:j1": "host:1:aaaaaaaaaaaa 1790000000.0 q"})
    redis.rpush("pyworkers:line:limit:order", line_entry.written(job(jid="2"), "q", time.time(), jid="2"))
    redis.sadd("pyworkers:lines", "limit:order")
    redis.zadd("pyworkers:limits:due", {"limit:order": time.time()})
    found = {one.problem: one.what for one in findings(inspector) if "has a place" in one.what}
    assert found[True].startswith("limit order: j1 has a place, and its process host:1:aaaaaaaaaaaa is dead or unknown")
    assert found[True].endswith("1 job wait behind it")
    assert found[False].startswith("limit free: j1")


def test_a_place_of_a_holder_that_lives_is_not_found(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.hset("pyworkers:owners", "other:1:aaaaaaaaaaaa", DEAD)
    broker, blocks = inspector._broker, "host:1:bbbbbbbbbbbb"
    broker.require_part(Limits).declare([LimitSettings("order", 1)])
    broker.recoverable.beat(Presence(blocks, {}, blocks=True))
    broker.require_part(Limits).take(Slot("order"), "block-1", blocks)
    assert findings(inspector) == []


def test_processes_that_free_places_by_a_missing_lease_are_found(inspector: Inspector, redis: redis_py.Redis) -> None:
    entries = {
        f"{name}:1:aaaaaaaaaaaa": json.dumps({"v": 1, "queues": {}, "origin": {"machine": "elsewhere"}, **more})
        for name, more in {
            "early": {"speaks": ["limits"]}, "old": {}, "now": {"speaks": ["limits"], "frees": DECLARED_DEAD},
        }.items()
    }  # fmt: skip
    redis.hset("pyworkers:owners", mapping=entries)
    for identity in entries:
        redis.set(Keys().lease(identity), "1")
    assert findings(inspector) == []
    inspector._broker.require_part(Limits).declare([LimitSettings("order", 1)])
    [found] = findings(inspector)
    assert found.what.startswith("1 process of an earlier build, such as early:1:aaaaaaaaaaaa, free the places")
    assert OwnerEntry({}).frees in OwnerEntry({}).to_json()
