"""Each action leaves one log line, and one entry of the audit with what it has changed; the table has all actions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
import redis as redis_py
import web_scene
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application
from goworkers_py.web.views.all_views import TABLE

GROUP = {"queue": "billing", "class": "Invoice", "name": "user:7"}
PYTHON, RUBY = {"identity": "worker-1:1204:5d20c7"}, {"identity": "legacy-1:44:0f3b1e"}
MAIL = {"state": "waiting", "queue": "mail", "all": "yes"}
# The fields of each action, and how many it changes. `{...}` is an id of the scene.
ACTIONS: Mapping[str, tuple[Mapping[str, str], int]] = {
    "/batch/cancel": ({"bid": "{bid}"}, 1),
    "/batch/close": ({"bid": "{bid}", "force": "yes"}, 1),
    "/chain/cancel": ({"cid": "{cid}"}, 1),
    "/configuration/delete": ({"name": "billing"}, 1),
    "/configuration/rollback": ({"name": "billing"}, 1),
    "/enqueue": ({"class": "MailJob", "queue": "mail"}, 1),
    "/enqueue/bulk": ({"jobs": '[{"class": "A"}, {"class": "B"}]'}, 2),
    "/group/delete": (GROUP, 4),
    "/group/flush": (GROUP, 1),
    "/group/reset": (GROUP, 0),
    "/group/set": ({**GROUP, "grace": "5m"}, 1),
    "/job/again": ({"jid": "{tracked}", "state": "waiting", "queue": "reports"}, 1),
    "/job/cancel": ({"jid": "{tracked}"}, 1),
    "/jobs/cancel": ({"all": "yes", "class": "NoSuch"}, 0),
    "/jobs/delete": ({"state": "dead", "all": "yes"}, 30),
    "/jobs/kill": ({"state": "retry", "all": "yes"}, 40),
    "/jobs/move": ({**MAIL, "to": "slow"}, 12),
    "/jobs/reschedule": ({"state": "scheduled", "all": "yes", "at": "5m"}, 3),
    "/jobs/retry": ({"state": "retry", "all": "yes"}, 40),
    "/limit/forget": ({"name": "spare"}, 1),
    "/limit/set": ({"name": "stripe", "concurrent": "0"}, 1),
    "/limit/unset": ({"name": "spare"}, 1),
    "/lock/free": ({"name": "{lock}"}, 1),
    "/periodic/forget": ({"name": "heartbeat"}, 1),
    "/periodic/pause": ({"name": "nightly"}, 1),
    "/periodic/resume": ({"name": "heartbeat"}, 1),
    "/periodic/run": ({"name": "nightly"}, 1),
    "/periodic/set": ({"name": "nightly", "cron": "5 4 * * *"}, 1),
    "/periodic/unset": ({"name": "nightly"}, 0),
    "/process/call": ({**PYTHON, "name": "flush", "args": '["s3cr3t"]'}, 0),
    "/process/concurrency": ({**PYTHON, "threads": "3"}, 0),
    "/process/dump": (RUBY, 1),
    "/process/log-level": ({**PYTHON, "level": "debug"}, 0),
    "/process/pause-queue": ({**PYTHON, "queue": "mail"}, 0),
    "/process/quiet": (RUBY, 1),
    "/process/reload": (PYTHON, 0),
    "/process/resume": (PYTHON, 0),
    "/process/resume-queue": ({**PYTHON, "queue": "mail"}, 0),
    "/process/stop": (RUBY, 1),
    "/queue/clear": ({"name": "mail"}, 12),
    "/queue/pause": ({"name": "mail"}, 1),
    "/queue/resume": ({"name": "imports"}, 1),
}


@pytest.mark.parametrize("of_api", [True, False], ids=["API", "page"])
def test_each_action_leaves_one_line_and_one_entry_with_its_count(
    app: App, client: Client, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture, of_api: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("goworkers_py.features.calls.views.WAIT_S", 0.05)
    caplog.set_level(logging.INFO, "goworkers_py.web")
    scene = web_scene.restored(web_scene.fill_for_changes, app, redis)
    copy, wrong = web_scene.copied(redis), {}
    for path, (told, count) in ACTIONS.items():
        redis.flushdb()
        web_scene.put_back(redis, copy)
        caplog.clear()
        fields: dict[str, Any] = {name: value.format(**scene._asdict()) if value[0] == "{" else value
                                  for name, value in told.items()}  # fmt: skip
        answer = client.api(f"/api{path}", fields) if of_api else client.sure(path, fields)
        name = path[1:].replace("/", " ")
        lines = [one.getMessage() for one in caplog.records]
        entries = [(one.action, one.count) for one in app.inspector.actions()]
        is_noted = not (of_api and TABLE.actions[path].routine)
        of_this = len(lines) == 1 and lines[0].startswith(f"pages: {name}: ") and f" count={count} " in lines[0]
        if answer.status not in (200, 303) or not of_this or entries != [(name, count)] * is_noted:
            wrong[path] = answer.status, answer.text[:200], lines, entries
        assert "s3cr3t" not in caplog.text
    assert wrong == {}


def test_every_action_is_in_the_table() -> None:
    assert set(ACTIONS) == set(TABLE.actions)


def test_an_entry_tells_which_jobs_were_meant_without_a_value_of_theirs(app: App, client: Client) -> None:
    client.api("/api/jobs/cancel", {"all": True, "class": "Import", "argument": "s3cr3t", "queue": "mail"})
    client.api("/api/jobs/delete", {"state": "waiting", "queue": "mail", "all": True, "match": "s3cr3t"})
    delete, cancel = app.inspector.actions()
    assert cancel.what == "all that run, of class Import, of queue mail, by argument: 0 jobs cancelled"
    assert delete.what == "all by match in queue mail: jobs deleted"


def test_who_may_only_push_cannot_wash_the_audit_away(app: App, client: Client) -> None:
    may = {"view", "push"}
    pusher = Client(application(app, authorize=lambda environ, action: action in may, asks_push=True))
    assert pusher.post("/enqueue", {"class": "MailJob", "queue": "mail"}).status == 303
    assert pusher.api("/api/enqueue", {"class": "MailJob", "queue": "mail"}).status == 200
    assert pusher.post("/enqueue", {"class": "MailJob", "options": '{"nosuch": 1}'}).status == 400
    assert app.inspector.actions() == []
    assert client.post("/enqueue", {"class": "MailJob", "queue": "mail"}).status == 303
    assert [one.action for one in app.inspector.actions()] == ["enqueue"]
