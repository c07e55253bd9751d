"""A small fleet in every state, for the tests of the pages and for pictures of them. What can be made by the product's
own calls is; only what lies in the past is written by hand."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple, TypeVar

import redis as redis_py
from web_fleet import fill_fleet

import goworkers_py as workers
from goworkers_py import App
from goworkers_py.core.effect import Push
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Firing, Release, Rule
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, Standing
from goworkers_py.wire.failure import pack_backtrace

CLASSES = ("MailJob", "Invoice::RenderJob", "ImportCustomersJob", "ThumbnailJob", "SyncStockJob", "ReportJob")
ERRORS = (
    ("Net::ReadTimeout", "Net::ReadTimeout with #<TCPSocket:(closed)>"),
    ("ConnectionError", "HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded"),
    ("KeyError", "'customer_id'"),
    ("ActiveRecord::RecordNotFound", "Couldn't find Order with 'id'=1042"),
)
GROUP = Group("billing", "Invoice", "user:7")


class Scene(NamedTuple):
    tracked: str  # the jid of a tracked job
    bid: str
    cid: str
    lock: str  # the name of a lock


class Copy(NamedTuple):
    made_at: float  # monotonic
    scene: Any  # what the fill returned
    entries: Sequence[bytes | int]  # of `copied`


T = TypeVar("T")
# Times in the scene are relative to when it was made. The first job is due two minutes later.
COPY_LASTS_S = 60.0
_COPY = """
local entries = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  entries[#entries + 1] = key
  entries[#entries + 1] = math.max(0, redis.call('PTTL', key))
  entries[#entries + 1] = redis.call('DUMP', key)
end
return entries
"""
_PUT_BACK = "for at = 1, #ARGV, 3 do redis.call('RESTORE', ARGV[at], ARGV[at + 1], ARGV[at + 2], 'REPLACE') end"
_copies: dict[Callable[[App, redis_py.Redis], Any], Copy] = {}


def jid_of(chance: random.Random) -> str:
    return f"{chance.getrandbits(96):024x}"


def failed(chance: random.Random, at: float, queue: str, retry_count: int) -> str:
    error, message = chance.choice(ERRORS)
    lines = [f"app/jobs/{error.lower().split(':')[0]}.py:{n}:in `perform'" for n in (12, 48, 7)]
    return json.dumps(
        {
            "class": chance.choice(CLASSES), "args": [chance.randrange(9000), {"locale": "de", "token": "s3cr3t"}],
            "jid": jid_of(chance), "queue": queue, "retry": True, "created_at": at - 4000, "enqueued_at": at - 3900,
            "error_class": error, "error_message": message, "failed_at": at - 3000, "retried_at": at - 600,
            "retry_count": retry_count, "error_backtrace": pack_backtrace(lines), "tags": ["eu"],
        }
    )  # fmt: skip


def fill(app: App, redis: redis_py.Redis) -> Scene:
    chance, now = random.Random(16), time.time()
    _queues(app, chance)
    for concurrency in (5, 8):
        app.inspector.configurations.push("billing", f"[queue:billing]\nconcurrency = {concurrency}\n")
    redis.zadd("retry", {failed(chance, now, "default", 3): now + 120 + 90 * n for n in range(40)})
    redis.zadd("dead", {failed(chance, now, "mail", 25): now - 600 * n for n in range(30)})
    for ahead in (120, 3_600, 86_400):
        app.enqueue_in("reports", "ReportJob", ahead, [2026, {"month": 11}])
    _history(redis, chance, now)
    # Neither a cron expression nor whole seconds: the page shows all of it as its rule.
    redis.hset("schedules", "sync", json.dumps({"class": "Sync", "args": [{"secret": "s3cr3t"}]}))
    app.report("import", {"rows": 3, "token": "s3cr3t"})
    app.inspector.pause("imports")
    return Scene(_tracked(app), _batch(app), _chain(app), _features(app, now))


def fill_all(app: App, redis: redis_py.Redis) -> Scene:
    """With processes, metrics and ended jobs, too: for pictures, and where it does not matter how many there are."""
    scene = fill(app, redis)
    fill_fleet(redis, CLASSES)
    app.inspector.note_action("ada", "retry", "dead jobs, class MailJob", 12, source="10.0.0.7")
    return scene


def fill_for_changes(app: App, redis: redis_py.Redis) -> Scene:
    """With something that each action and each command can change, and an empty audit list."""
    scene = fill_all(app, redis)
    redis.delete("pyworkers:audit")
    app.broker.require_part(Limits).declare([app.limit("spare", concurrent=2).spec.settings])
    app.inspector.set_limit("spare", 1)
    app.inspector.pause_periodic("heartbeat")
    digest = redis.hget("pyworkers:periodic:shop:heartbeat", "digest").decode()  # type: ignore[union-attr]
    redis.hset("pyworkers:periodic:shop:heartbeat", f"seen:{digest}", 1)  # no process has it any more
    bid = Bid("host:1:aaaaaaaaaaaa", "token", False, Standing(None, 6, ""))
    assert app.broker.require_part(Leadership).win("main", bid, 600)
    return scene


def restored(
    fill: Callable[[App, redis_py.Redis], T], app: App, redis: redis_py.Redis, lasts_s: float = COPY_LASTS_S
) -> T:
    """As `fill` leaves the empty database, from a copy of what it left for a test shortly before: that is quicker."""
    copy = _copies.get(fill)
    if copy is not None and time.monotonic() - copy.made_at < lasts_s:
        put_back(redis, copy.entries)
        known: T = copy.scene
        return known
    made_at, scene = time.monotonic(), fill(app, redis)
    _copies[fill] = Copy(made_at, scene, copied(redis))
    return scene


def copied(redis: redis_py.Redis) -> list[bytes | int]:
    """The key, the time to live and the value of all that is in the database."""
    entries: list[bytes | int] = redis.eval(_COPY, 0)
    return entries


def put_back(redis: redis_py.Redis, entries: Sequence[bytes | int]) -> None:
    redis.eval(_PUT_BACK, 0, *entries)


def _queues(app: App, chance: random.Random) -> None:
    for queue, size in (("default", 34), ("mail", 12), ("reports", 3), ("imports", 8), ("critical", 1)):
        for _ in range(size):
            app.enqueue(queue, chance.choice(CLASSES), [chance.randrange(9000), {"name": "Ada", "password": "s3cr3t"}])


def _history(redis: redis_py.Redis, chance: random.Random, now: float) -> None:
    for day in range(30):
        date = time.strftime("%Y-%m-%d", time.gmtime(now - 86_400 * day))
        weekend = time.gmtime(now - 86_400 * day).tm_wday > 4
        done = chance.randrange(2_000, 4_000) if weekend else chance.randrange(9_000, 14_000)
        redis.set(f"stat:processed:{date}", done)
        redis.set(f"stat:failed:{date}", chance.randrange(20, done // 25))
    for minute in range(0, 480, 3):
        at = datetime.fromtimestamp(now - 60 * minute, timezone.utc)
        for place, name in enumerate(CLASSES):
            runs = chance.randrange(3, 40) // (place + 1)
            key = f"j|{at:%y%m%d}|{at.hour}:{at:%M}"
            counts = {f"{name}|p": runs, f"{name}|f": runs // 12, f"{name}|ms": runs * 130 * (place + 1)}
            redis.hset(key, mapping=counts)  # type: ignore[arg-type]
            redis.bitfield(f"h|{name}-{at.day}-{at.hour}:{at.minute}").set("u16", f"#{4 + place}", runs).execute()
    marked = datetime.fromtimestamp(now - 1_200, timezone.utc)
    redis.hset(f"{marked:%Y%m%d}-marks", f"{marked:%Y-%m-%dT%H:%M}:00Z", "release 118")
    redis.set("stat:processed", 284_311)
    redis.set("stat:failed", 4_093)


def _tracked(app: App) -> str:
    options = workers.EnqueueOptions(track=True, tags=["eu", "nightly"])
    args: list[Any] = [{"year": 2026, "items": [1, 2, {"deep": [True, None, "text"]}], "password": "s3cr3t"}]
    jid = app.enqueue_with_options("reports", "ReportJob", args, options)
    assert jid is not None
    return jid


def _batch(app: App) -> str:
    with app.batch("import of customers") as batch:
        for number in range(6):
            app.enqueue("imports", "ImportCustomersJob", [number])
    return str(batch.bid)


def _chain(app: App) -> str:
    def step(number: int) -> None: ...

    link = app.job("StepJob", queue="reports")(step)
    return str(app.chain(link.s(1), link.s(2), link.s(3)).enqueue())


def _features(app: App, now: float) -> str:
    joining = GroupMembership(GROUP, GroupSettings(grace_s=3_600))
    secret = {"token": "s3cr3t"}
    members = [{"class": "Invoice", "args": [n, secret], "jid": f"member{n}", "queue": GROUP.queue} for n in range(4)]
    pushed = [Push(GROUP.queue, json.dumps(one).encode(), ties=(joining,)) for one in members]
    app.broker.transport.publish(pushed)
    limit = app.limit("stripe", concurrent=2)
    app.broker.require_part(Limits).declare([limit.spec.settings])
    app.job("ChargeJob", queue="billing", limits=[limit])(lambda number: None).enqueue_bulk([[n] for n in range(5)])
    app.job("SyncStockJob", queue="default", unique_for=600)(lambda number: None).enqueue(7)
    release = Release("shop", "7")
    args = ["eu", secret]
    told = {"class": "ReportJob", "queue": "reports", "args": args, "catch_up": "latest", "overlap": "allow"}
    rules = {"nightly": Rule("0 3 * * *", 0, "Europe/Berlin"), "heartbeat": Rule("", 60, "")}
    known = [schedule(name, rule, told) for name, rule in rules.items()]
    periodic = app.broker.require_part(Periodic)
    for state in periodic.register(release, known).states:
        periodic.fire(release, Firing("nightly", state.number, state.since - 5, "fired", "abc"))
    return next(iter(app.inspector.locks())).name
