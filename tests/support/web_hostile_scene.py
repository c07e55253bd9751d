"""Puts hostile payloads into every place, and gives hostile names to everything that has one."""

from __future__ import annotations

import datetime
import json
import math
import time
from collections.abc import Sequence
from typing import Any

import redis as redis_py
from web_fleet import record
from web_hostile import WRONG, job, storable
from web_processes import KEYS, ProcessScene, python_process, ruby_process

from goworkers_py import App
from goworkers_py.brokers.redis.queues.line_entry import written
from goworkers_py.core.effect import Push
from goworkers_py.features.batches.batch import Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.groups.group import Group, GroupMembership
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import LimitSettings
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Firing, Release, Rule
from goworkers_py.features.tracking.redis_part import record_key
from goworkers_py.features.unique.redis_part import lock_key
from goworkers_py.wire.job_record import Progress

# Times of sorted sets: jobs may be due at any of them.
SCORES = (0.0, -1.0, 1.7e9, 4e9, 1e18, -1e18, 1e308, math.inf, -math.inf, 1e-300)
THINGS = storable()  # names of queues, limits, batches...


def fill_hostile(app: App, redis: redis_py.Redis, payloads: Sequence[bytes]) -> None:
    now = time.time()
    pipe = redis.pipeline(transaction=False)
    _jobs(pipe, payloads, now)
    _processes(pipe, payloads, now)
    for number, name in enumerate(THINGS):
        _tracked(pipe, name, number, now)
        _other_records(pipe, name, number, now)
    pipe.execute()
    for number, name in enumerate(THINGS):
        _named(app, name, number)
    _periodic(app)


def _jobs(pipe: Any, payloads: Sequence[bytes], now: float) -> None:
    """Each payload in four places; the scores take turns."""
    for number, payload in enumerate(payloads):
        score = SCORES[number % len(SCORES)] if number % 3 == 0 else now + number
        key = ("retry", "dead", "schedule")[number % 3]
        pipe.zadd(key, {payload: score})
        pipe.zadd(("dead", "schedule", "retry")[number % 3], {payload: score})
        queue = THINGS[number % len(THINGS)]
        pipe.sadd(KEYS.queues, queue)
        pipe.lpush(KEYS.queue(queue), payload)
        line = THINGS[number * 7 % len(THINGS)]
        entry = written(payload, queue, now, jid="5")
        pipe.sadd(KEYS.lines, line)
        pipe.lpush(KEYS.line(line), entry if number % 5 else entry[1:])
    pipe.sadd(KEYS.paused, *THINGS[::3])


def _processes(pipe: Any, payloads: Sequence[bytes], now: float) -> None:
    for number, name in enumerate(THINGS):
        queues = [THINGS[number], "default"]
        running = [(THINGS[number], one) for one in payloads[number :: len(THINGS)] if len(one) < 50_000]
        identity = f"{name}:{number}:rb"
        more = {"hostname": name, "labels": [name], "pyworkers": {"v": 1, "commands": [name], "config": {"name": name}}}
        told = ProcessScene(identity, [(name, 3, queues)], running[:5], name, version=name, dead=number % 2 == 0)
        python_process(pipe, ProcessScene(f"{name}:{number}:py", [(name, 3, queues)], running, name), now)
        ruby_process(pipe, ProcessScene(**{**told.__dict__, "more": more}), now)
    for number, value in enumerate(WRONG):
        identity = f"damaged:{number}:x"
        pipe.sadd(KEYS.processes, identity)
        pipe.hset(KEYS.member(identity), mapping={
            name: json.dumps(value)
            for name in ("info", "busy", "beat", "quiet", "rss", "concurrency", "standby", "cpu_share")
        })  # fmt: skip
        pipe.hset(KEYS.works(identity)[0], "worker", json.dumps(value))
        pipe.hset(KEYS.works(identity)[0], "payload", json.dumps({"queue": value, "payload": value, "run_at": value}))


def _tracked(pipe: Any, name: str, number: int, now: float) -> None:
    state = ("completed", "cancelled", "expired", "running", "retry", "dead", "grouped", "scheduled")[number % 8]
    jid = f"tracked{number}{name}"
    moves = [f"created {now} {name}", f"{name} {name} {name}", f"{state} {now} {name}"]
    fields = record(state, moves, now) | {
        "class": name, "queue": name, "group": name, "due": name, "owner": name, "error_class": name,
        "error_message": name, "result": json.dumps({name: [name]}) if number % 2 else name, "lost": name,
        "progress": Progress(1, 3, name, now).as_json() if number % 3 else name,
    }  # fmt: skip
    pipe.hset(record_key(KEYS, jid), mapping=fields)
    if number % 8 < 3:
        pipe.zadd(f"pyworkers:ended:{state}", {jid: now - number})


def _other_records(pipe: Any, name: str, number: int, now: float) -> None:
    pipe.hset(lock_key(KEYS, f"{name}:{number}"), mapping={"v": 1, "jid": name, "queue": name, "at": now, "due": now})
    pipe.pexpire(lock_key(KEYS, f"{name}:{number}"), 3_600_000)
    day = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    pipe.hset(KEYS.marks(day.date()), f"{day:%Y-%m-%d}T00:{number % 60:02}:00Z", name)


def _named(app: App, name: str, number: int) -> None:
    """What the product itself makes under such a name."""
    broker = app.broker
    broker.require_part(Batches).open(NewBatch(Membership(f"b{number}{name.replace('.', ',')}", (name,)), name, "hold"))
    broker.require_part(Limits).declare([LimitSettings(name, 2, None)])
    group = Group(name, name, name)
    broker.transport.publish([Push(name, job(queue=name, **{"class": name}), ties=(GroupMembership(group),))])
    app.inspector.note_action(name, name, name, number, source=name)


def _periodic(app: App) -> None:
    release = Release("shop", "1")
    told = [{"class": name, "queue": name, "args": [name], "catch_up": name, "overlap": name} for name in THINGS]
    known = [schedule(one["class"], Rule("0 3 * * *", 0, one["class"]), one) for one in told]
    periodic = app.broker.require_part(Periodic)
    for one, state in zip(known, periodic.register(release, known).states, strict=True):
        periodic.fire(release, Firing(one.name, state.number, state.since - 5, "fired", "abc"))
