"""Actions of the pages leave what the commands of the same name leave: each is made on a copy of the same fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
import redis as redis_py
import web_scene
from calls import Call
from web_scene import GROUP, Scene
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.groups.group import OwnSettings
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import Rate
from goworkers_py.web import application

pytestmark = pytest.mark.usefixtures("on_this_server")

OF_GROUP = {"queue": "billing", "class": "Invoice", "name": "user:7"}
IN_GROUP = ("Invoice", "user:7", "--queue", "billing")


class Same(NamedTuple):
    """An action, the command, and what was done before both. Names of Scene stand for the ids of the fleet."""

    action: str
    fields: Mapping[str, str]
    command: tuple[str, ...]
    before: str = ""


SAME = [
    Same("/periodic/pause", {"name": "nightly"}, ("periodic", "pause", "nightly")),
    Same("/periodic/resume", {"name": "nightly"}, ("periodic", "resume", "nightly"), "paused"),
    Same("/periodic/run", {"name": "shop:nightly"}, ("periodic", "run", "shop:nightly")),
    Same(
        "/periodic/set",
        {"name": "nightly", "cron": "5 4 * * *", "timezone": "UTC", "args": '["us", {"a": null}]'},
        ("periodic", "set", "nightly", "--cron", "5 4 * * *", "--timezone", "UTC", "--args", '["us", {"a": null}]'),
    ),
    Same("/periodic/set", {"name": "heartbeat", "every": "90"}, ("periodic", "set", "heartbeat", "--every", "90")),
    Same("/periodic/set", {"name": "nightly", "args": "[]"}, ("periodic", "set", "nightly", "--args", "[]")),
    Same("/periodic/unset", {"name": "nightly"}, ("periodic", "set", "nightly", "--unset"), "rule set"),
    Same("/periodic/forget", {"name": "nightly"}, ("periodic", "forget", "nightly"), "no process"),
    Same("/batch/cancel", {"bid": "bid"}, ("batches", "cancel", "bid")),
    Same("/batch/close", {"bid": "bid"}, ("batches", "close", "bid"), "held"),
    Same("/batch/close", {"bid": "bid", "force": "yes"}, ("batches", "close", "bid", "--force")),
    Same("/chain/cancel", {"cid": "cid"}, ("chains", "cancel", "cid")),
    Same("/group/flush", OF_GROUP, ("groups", "flush", *IN_GROUP)),
    Same(
        "/group/set",
        {**OF_GROUP, "grace": "5m", "max_delay": "0"},
        ("groups", "set", *IN_GROUP, "--grace", "5m", "--max-delay", "0"),
        "group set",
    ),
    Same("/group/reset", OF_GROUP, ("groups", "set", *IN_GROUP, "--reset"), "group set"),
    Same("/group/delete", OF_GROUP, ("groups", "delete", *IN_GROUP, "--yes")),
    Same("/limit/set", {"name": "stripe", "concurrent": "0"}, ("limits", "set", "stripe", "--concurrent", "0")),
    Same("/limit/set", {"name": "stripe", "rate": "any"}, ("limits", "set", "stripe", "--rate", "any"), "rate"),
    Same("/limit/set", {"name": "stripe", "burst": "7"}, ("limits", "set", "stripe", "--burst", "7"), "rate"),
    Same("/limit/set", {"name": "stripe", "rate": "2/h"}, ("limits", "set", "stripe", "--rate", "2/h"), "rate"),
    Same("/limit/unset", {"name": "stripe"}, ("limits", "unset", "stripe"), "rate"),
    Same("/limit/forget", {"name": "stripe"}, ("limits", "forget", "stripe")),
    Same("/lock/free", {"name": "lock"}, ("locks", "free", "lock")),
    Same("/configuration/rollback", {"name": "shop"}, ("config", "rollback", "--name", "shop"), "configured"),
    Same(
        "/configuration/rollback",
        {"name": "shop", "version": "1"},
        ("config", "rollback", "1", "--name", "shop"),
        "configured",
    ),
    Same("/configuration/delete", {"name": "shop"}, ("config", "delete", "--name", "shop", "--yes"), "configured"),
]

# What the command refuses, or ends with 1 because nothing was there to do, changes nothing by the page either.
REFUSED = [
    Same("/periodic/set", {"name": "nightly"}, ("periodic", "set", "nightly"), "rule set"),
    Same("/periodic/set", {"name": "nightly", "every": "0"},
         ("periodic", "set", "nightly", "--every", "0"), "rule set"),
    Same("/periodic/set", {"name": "nightly", "every": "-5"}, ("periodic", "set", "nightly", "--every", "-5")),
    Same("/periodic/set", {"name": "nightly", "args": "{}"}, ("periodic", "set", "nightly", "--args", "{}")),
    Same("/periodic/set", {"name": "nightly", "timezone": "No/Where"},
         ("periodic", "set", "nightly", "--timezone", "No/Where")),
    Same("/periodic/forget", {"name": "nightly"}, ("periodic", "forget", "nightly")),
    Same("/group/set", OF_GROUP, ("groups", "set", *IN_GROUP)),
    Same("/group/set", {**OF_GROUP, "max_size": "-1"}, ("groups", "set", *IN_GROUP, "--max-size", "-1")),
    Same("/group/set", {**OF_GROUP, "max_size": "1000000001"},
         ("groups", "set", *IN_GROUP, "--max-size", "1000000001")),
    Same("/group/set", {**OF_GROUP, "grace": "-5"}, ("groups", "set", *IN_GROUP, "--grace", "-5")),
    Same("/limit/set", {"name": "stripe"}, ("limits", "set", "stripe")),
    Same("/limit/set", {"name": "stripe", "concurrent": "-1"}, ("limits", "set", "stripe", "--concurrent", "-1")),
    Same("/limit/set", {"name": "stripe", "concurrent": "1000000001"},
         ("limits", "set", "stripe", "--concurrent", "1000000001")),
    Same("/limit/set", {"name": "stripe", "burst": "0"}, ("limits", "set", "stripe", "--burst", "0"), "rate"),
    Same("/limit/set", {"name": "stripe", "rate": "any", "burst": "3"},
         ("limits", "set", "stripe", "--rate", "any", "--burst", "3"), "rate"),
    Same("/limit/set", {"name": "stripe", "burst": "3"}, ("limits", "set", "stripe", "--burst", "3")),
    Same("/limit/set", {"name": "nosuch", "concurrent": "3"}, ("limits", "set", "nosuch", "--concurrent", "3")),
    Same("/group/reset", OF_GROUP, ("groups", "set", *IN_GROUP, "--reset")),
    Same("/batch/cancel", {"bid": "nosuch"}, ("batches", "cancel", "nosuch")),
    Same("/batch/close", {"bid": "nosuch", "force": "yes"}, ("batches", "close", "nosuch", "--force")),
    Same("/chain/cancel", {"cid": "nosuch"}, ("chains", "cancel", "nosuch")),
    Same("/lock/free", {"name": "nosuch:1"}, ("locks", "free", "nosuch:1")),
    Same("/limit/unset", {"name": "stripe"}, ("limits", "unset", "stripe")),
    Same("/periodic/pause", {"name": "nightly"}, ("periodic", "pause", "nightly"), "paused"),
    Same("/periodic/resume", {"name": "nightly"}, ("periodic", "resume", "nightly")),
    Same("/periodic/run", {"name": "nightly"}, ("periodic", "run", "nightly"), "no process"),
    Same("/periodic/unset", {"name": "nightly"}, ("periodic", "set", "nightly", "--unset")),
    Same("/limit/forget", {"name": "order"}, ("limits", "forget", "order"), "places"),
]  # fmt: skip


def prepare(app: App, redis: redis_py.Redis, scene: Scene, before: str) -> None:
    inspector = app.inspector
    steps: Mapping[str, Callable[[], object]] = {
        "paused": lambda: inspector.pause_periodic("nightly"),
        "rule set": lambda: inspector.set_periodic("nightly", cron="1 1 * * *", args=[1]),
        "no process": lambda: forget_processes(redis),
        "held": lambda: app.broker.require_part(Batches).hold(scene.bid, "a program"),
        "group set": lambda: inspector.set_group(GROUP, OwnSettings(60.0, 600.0, 5)),
        "rate": lambda: inspector.set_limit("stripe", 4, Rate(1, 5_000_000.0, 2)),
        "places": lambda: take_place(app),
        "configured": lambda: [
            inspector.configurations.push("shop", f"[queue:q]\nconcurrency = {n}") for n in (1, 2, 3)
        ],
    }
    if before:
        steps[before]()


def forget_processes(redis: redis_py.Redis) -> None:
    digest = redis.hget("pyworkers:periodic:shop:nightly", "digest").decode()
    redis.hset("pyworkers:periodic:shop:nightly", f"seen:{digest}", 1)


def push_configuration(app: App, concurrency: int) -> None:
    app.inspector.configurations.push("shop", f"[queue:shop]\nconcurrency = {concurrency}\n")


def take_place(app: App) -> None:
    limit = app.limit("order", concurrent=1)
    app.broker.require_part(Limits).declare([limit.spec.settings])
    app.job("OrderJob", queue="billing", limits=[limit])(lambda number: None).enqueue(1)


def left(app: App) -> dict[str, Any]:
    """What the inspector shows of the features, without the times at which something was changed."""
    inspector = app.inspector
    now = inspector.now()
    return {
        "periodic": [
            (one.name, one.rule, one.args, one.state, one.paused, one.overridden, one.asked, len(one.args or ()))
            for one in inspector.periodic_jobs()
        ],
        "batches": [
            (one.bid, one.state, one.stopped, one.holds, one.pending, one.cancelled, one.ended_at is None)
            for one in inspector.batches.all()
        ],
        "chains": [(one.cid, one.state, one.link, one.ended_at is None) for one in inspector.chains.all()],
        "groups": [
            (one.group, one.size, one.own, one.settings, one.due is not None and one.due <= now)
            for one in inspector.groups()
        ],
        "limits": inspector.limits(),
        "configurations": [(one.name, one.version, one.text, one.of) for one in inspector.configurations.newest()],
        "slots": [(one.slot, one.waiting, [it.jid for it in one.holders]) for one in inspector.slots("stripe")],
        "locks": [one.name for one in inspector.locks()],
        "queues": [(one.name, one.size) for one in inspector.queues()],
    }


def named(scene: Scene, text: str) -> str:
    return str(getattr(scene, text, text))


def told_of(same: Same) -> str:
    return " ".join([*same.command[:2], *same.fields.values()])


@pytest.mark.parametrize("same", SAME, ids=told_of)
def test_an_action_leaves_what_the_command_of_its_name_leaves(
    app: App, redis: redis_py.Redis, scene: Scene, client: Client, call: Call, same: Same
) -> None:
    prepare(app, redis, scene, same.before)
    copy, before = web_scene.copied(redis), left(app)
    answer = client.sure(same.action, {name: named(scene, value) for name, value in same.fields.items()})
    assert answer.status == 303, answer.text
    by_page = left(app)
    redis.flushdb()
    web_scene.put_back(redis, copy)
    assert left(app) == before
    told = call(*(named(scene, word) for word in same.command))
    assert told.returncode == 0, told.stderr
    assert by_page == left(app)
    assert by_page != before


@pytest.mark.parametrize("same", REFUSED, ids=told_of)
def test_what_a_command_refuses_the_action_refuses_too(
    app: App, redis: redis_py.Redis, scene: Scene, client: Client, call: Call, same: Same
) -> None:
    prepare(app, redis, scene, same.before)
    before = left(app)
    assert call(*same.command).returncode != 0
    assert left(app) == before
    told = client.api(f"/api{same.action}", same.fields)
    assert told.status in (400, 404) or told.json["count"] == 0, told.text
    assert left(app) == before


@pytest.mark.parametrize("action", sorted({same.action for same in SAME}))
def test_who_may_only_look_changes_nothing(app: App, redis: redis_py.Redis, scene: Scene, action: str) -> None:
    viewer = Client(application(app, authorize=lambda environ, wanted: wanted == "view"))
    before = left(app)
    for same in SAME:
        if same.action == action:
            fields = {name: named(scene, value) for name, value in same.fields.items()}
            assert viewer.sure(action, fields).status == 403
            assert viewer.api(f"/api{action}", fields).status == 403
    assert left(app) == before
