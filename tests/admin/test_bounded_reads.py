"""What people read of a fleet asks Redis for at most 1,000 entries in one command, however many jobs there are: a
server that answers one long command serves no worker meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import redis as redis_py
from apps import job, own_app

from goworkers_py import App
from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import DEAD, OUTBOX, PARKED, RETRIES, SCHEDULED, waiting_in
from goworkers_py.brokers.redis.driver import connection as connection_module
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.features.batches.redis_part import batch_key, batches_key
from goworkers_py.features.calls.record import written_report
from goworkers_py.features.calls.redis_part import reports_key
from goworkers_py.features.chains.chain import MOST_AT_WORK
from goworkers_py.features.chains.redis_part import chain_key, chains_key
from goworkers_py.features.groups.group import Group
from goworkers_py.features.groups.redis_part import entry_of, groups_key, groups_of_key, members_key
from goworkers_py.features.limits.redis_part import limit_key, limits_due_key, limits_key
from goworkers_py.features.tracking.redis_part import ended_key
from goworkers_py.features.unique.redis_part import lock_key

MOST, MANY, LINES = 1_000, 3_000, 1_200
FAR = 4e9
OWNER = "host:1:aaaaaaaaaaaa"
Q = waiting_in("q")
PLACES = (Q, SCHEDULED, RETRIES, DEAD, PARKED, OUTBOX)
GROUP = Group("q", "Invoice", "everybody")


class Asked(NamedTuple):
    command: str
    entries: int


def entries_in(command: Sequence[Any], reply: Any) -> int:
    """The entries of the longest list in a reply. An entry has two elements where its score or its value is told."""
    if not isinstance(reply, list):
        return 0
    pairs = "WITHSCORES" in command or "HGETALL" in command
    return max([len(reply) // (2 if pairs else 1), *(entries_in((), one) for one in reply)])


@pytest.fixture
def long_replies(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """The commands whose replies had more than MOST entries."""
    found: list[Asked] = []
    converse = connection_module.converse

    def noted(connection: Any, commands: Sequence[Any]) -> list[Any]:
        replies = converse(connection, commands)
        for command, reply in zip(commands, replies, strict=True):
            if (entries := entries_in(command, reply)) > MOST:
                found.append(Asked(" ".join(map(str, command[:6])), entries))
        return replies

    monkeypatch.setattr(connection_module, "converse", noted)
    return found


def jobs(count: int = MANY, **fields: Any) -> list[bytes]:
    return [job("J", n, jid=f"jid{n:05}", queue="q", **fields) for n in range(count)]


def fill(redis: redis_py.Redis) -> None:
    keys = Keys()
    to = redis.pipeline(transaction=False)
    to.sadd("queues", "q")
    to.lpush("queue:q", *jobs())
    failed = jobs(error_class="ValueError", failed_at=1.0)
    for key in ("schedule", "retry", "dead"):
        to.zadd(key, {one: FAR if number % 2 else FAR + number for number, one in enumerate(failed)})
    to.hset(keys.owners, OWNER, json.dumps({"queues": {"q": 1}, "origin": {}}))
    to.lpush(keys.inprogress("q", OWNER), *jobs())
    to.hset(limit_key(keys, "stripe"), mapping={"v": 1, "concurrent": 1, "rate": "", "holds": ""})
    to.sadd(limits_key(keys), "stripe")
    entries = [line_entry.written(one, "q", 1.0, id=str(n)) for n, one in enumerate(jobs())]
    lines = ["limit:stripe", *(f"limit:stripe:{n}" for n in range(LINES))]
    to.sadd(keys.lines, *lines)
    to.zadd(limits_due_key(keys), dict.fromkeys(lines, FAR))
    to.lpush(keys.line(lines[0]), *entries)
    for line in lines[1:]:
        to.lpush(keys.line(line), entries[0])
    to.sadd(keys.outboxes, "b")
    to.lpush(keys.outbox("b"), *entries)
    for n in range(MANY):
        to.zadd(batches_key(keys), {f"b{n}": FAR})
        to.hset(batch_key(keys, f"b{n}"), mapping={"v": 1, "name": "import", "at": 1, "total": 5})
        to.zadd(chains_key(keys), {f"c{n}": FAR})
        to.hset(chain_key(keys, f"c{n}"), mapping={"v": 1, "links": 2, "link": 1, "state": "running", "at": 1})
        to.hset(lock_key(keys, f"J:{n}"), mapping={"v": 1, "jid": f"jid{n:05}", "queue": "q", "at": 1})
        to.zadd(groups_of_key(keys, "Invoice"), {entry_of(GROUP._replace(name=f"user:{n}")): FAR})
        to.rpush(members_key(keys, GROUP._replace(name=f"user:{n}")), jobs(1)[0])
        to.xadd(reports_key(keys), {"report": written_report("r", OWNER, "{}")})
    parts = {f"link:1:{n}": one + b"\nq" for n, one in enumerate(jobs(), 1)}
    to.hset(chain_key(keys, "c0"), mapping={"parts": MANY, **parts})
    to.zadd(ended_key(keys, "completed"), {f"jid{n:05}": n for n in range(MANY)})
    to.sadd(groups_key(keys), "Invoice")
    to.rpush(members_key(keys, GROUP), *jobs())
    to.execute()


@pytest.fixture
def app(redis_url: str, redis: redis_py.Redis) -> Iterator[App]:
    fill(redis)
    with own_app(redis_url) as made:
        yield made


READS: dict[str, Callable[[Inspector], Any]] = {
    "stats": lambda inspector: inspector.stats(),
    "history": lambda inspector: inspector.history(90),
    "queues": lambda inspector: [inspector.queues(), inspector.queue("q")],
    "counts": lambda inspector: [inspector.count(place) for place in PLACES],
    "pages": lambda inspector: [len(list(inspector.pages(place))) for place in PLACES],
    "newest first": lambda inspector: [len(list(inspector.pages(place, newest_first=True))) for place in PLACES],
    "page": lambda inspector: [inspector.page(place, limit=MANY) for place in PLACES],
    "first": lambda inspector: [inspector.first(place, MANY) for place in PLACES],
    "sample": lambda inspector: [inspector.sample(place, MANY) for place in (Q, RETRIES, DEAD)],
    "failures": lambda inspector: inspector.failures(),
    "find": lambda inspector: [*inspector.find("jid02999")],
    "status": lambda inspector: [inspector.status(jid) for jid in ("jid02999", "nowhere", "jid00001")],
    "ended": lambda inspector: inspector.ended("completed", limit=MOST),
    "by jid": lambda inspector: [[*inspector.jobs(place, Filter(jids=["jid00009"]))] for place in PLACES],
    "dry run": lambda inspector: [[*inspector.delete(place, Filter(), dry_run=True)] for place in PLACES],
    "running": lambda inspector: inspector.running(),
    "processes": lambda inspector: [inspector.processes(), inspector.owners()],
    "in progress": lambda inspector: [len([*inspector.in_progress()]), inspector.held(inspector.owners())],
    "lines": lambda inspector: [inspector.lines(), inspector.outboxes()],
    "limits": lambda inspector: [inspector.limits(), len([*inspector.slots("stripe")])],
    "locks": lambda inspector: len([*inspector.locks()]),
    "batches": lambda inspector: [len([*inspector.batches.all()]), inspector.batches.status("b0")],
    "chains": lambda inspector: [len([*inspector.chains.all()]), inspector.chains.status("c0")],
    "groups": lambda inspector: [len([*inspector.groups()]), inspector.group(GROUP), inspector.members(GROUP, MANY)],
    "reports": lambda inspector: inspector.reports(limit=MANY),
    "actions": lambda inspector: inspector.actions(limit=MOST),
    "periodic jobs": lambda inspector: inspector.periodic_jobs(),
    "servers": lambda inspector: inspector.broker_facts(),
    "damage": lambda inspector: [inspector.damage(), inspector.damaged_queues()],
    "checks": lambda inspector: [[*check()] for check in inspector.checks(["q"]).values()],
    "neighbours": lambda inspector: [inspector.neighbours.leftovers(), inspector.foreign_schedules()],
}


@pytest.mark.timeout(180)  # it makes thousands of entries of each kind
def test_no_command_is_answered_with_more_than_a_thousand_entries(app: App, long_replies: list[Asked]) -> None:
    found: dict[str, list[Asked]] = {}
    for name, read in READS.items():
        read(app.inspector)
        if long_replies:
            found[name] = long_replies[:3]
            long_replies.clear()
    assert found == {}


def test_many_jobs_are_returned_in_their_order(app: App) -> None:
    inspector, expected = app.inspector, [f"jid{n:05}" for n in range(MANY)]
    for place in (Q, OUTBOX):
        found = [one.jid for one in inspector.first(place, MANY + 5)]
        assert found == expected
        assert [one.jid for one in inspector.first(place, 700)] == expected[:700]
    for place in (SCHEDULED, RETRIES, DEAD):
        everything = [one for page in inspector.pages(place) for one in page]
        assert inspector.first(place, MANY) == inspector.first(place, MANY * 2) == everything
    assert [one.jid for one in inspector.members(GROUP, MANY)] == expected
    assert [one.jid for one in inspector.members(GROUP, 10**9)] == expected
    assert len(inspector.first(PARKED, 10**9)) == inspector.count(PARKED) == MANY + LINES
    reports = [one.position for one in inspector.reports(limit=MANY)]
    assert reports == sorted(set(reports), key=lambda name: tuple(map(int, name.split("-"))))
    assert len(reports) == MANY
    after = [one.position for one in inspector.reports(after=reports[99], limit=MOST + 100)]
    assert after == reports[100 : MOST + 200]
    chain = inspector.chains.status("c0")
    assert chain is not None
    assert len(chain.jobs) == MOST_AT_WORK
    assert len([*inspector.slots("stripe")]) == LINES + 1
