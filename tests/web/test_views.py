"""Every page and every action over a fleet in every state: what a page shows, and that an action leaves what the
inspector's call of the same name leaves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
import redis as redis_py
import web_scene
from waiting import eventually
from web_scene import Scene
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.redis.queues import line_entry
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.web import application
from goworkers_py.web.views.all_views import TABLE

SECRET = "s3cr3t"


@pytest.fixture
def client(client: Client, scene: Scene) -> Client:
    """Of pages that have the scene to show."""
    return client


def paths(scene: Scene) -> dict[str, str]:
    """An address for each view that needs parameters."""
    return {
        "/queue": "/queue?name=mail", "/job": f"/job?jid={scene.tracked}",
        "/job/raw": f"/job/raw?jid={scene.tracked}&state=waiting&queue=reports", "/batch": f"/batch?bid={scene.bid}",
        "/chain": f"/chain?cid={scene.cid}", "/group": "/group?queue=billing&class=Invoice&name=user:7",
        "/metrics/class": "/metrics/class?name=MailJob&hours=8", "/process": "/process?identity=none",
        "/status": f"/status?jid={scene.tracked}",
        "/result": f"/result?jid={scene.tracked}",
        "/limit": "/limit?name=stripe", "/periodic/one": "/periodic/one?name=nightly",
        "/configuration": "/configuration?name=billing",
    }  # fmt: skip


# --- all pages


@pytest.mark.parametrize("path", TABLE.views)
def test_each_page_and_its_json_are_answered_and_show_no_secret(client: Client, scene: Scene, path: str) -> None:
    address = paths(scene).get(path, path)
    answer = client.get(address)
    assert answer.status == {"/result": 202}.get(path, 200), answer.text
    assert SECRET not in answer.text
    told = client.get(f"/api{address}")
    assert told.status == answer.status
    assert SECRET not in told.text
    if path != "/job/raw":
        json.loads(told.body)


@pytest.mark.parametrize("path", TABLE.views)
def test_each_page_is_answered_where_nothing_is(app: App, redis_url: str, path: str) -> None:
    client = Client(application(app, authorize=lambda environ, action: True))
    made_up = "?" + "&".join(f"{name}=x" for name in ("name", "jid", "bid", "cid", "queue", "class", "identity"))
    answer = client.get(f"{path}{made_up}")
    assert answer.status in (200, 202, 400, 404), answer.text


def test_links_of_all_pages_lead_somewhere(client: Client, scene: Scene) -> None:
    seen: set[str] = set()
    for path in TABLE.views:
        if path == "/job/raw":
            continue
        page = client.get(paths(scene).get(path, path)).text
        links = {unescape(link) for link in re.findall(r'href="(/[^"]*)"', page)}
        for link in sorted(links - seen):
            known = link.split("?")[0].removeprefix("/api") or "/"
            if known in TABLE.views:
                assert client.get(link).status in (200, 404), f"{link} on {path}"
        seen |= links
    assert len(seen) > 50


# --- lists of jobs


def test_jobs_of_a_state_are_filtered_as_by_the_command(app: App, client: Client) -> None:
    wanted = Filter(job_class="MailJob", error="Timeout", tag="eu")
    expected = {job.jid for job in app.inspector.jobs(app.inspector.RETRIES, wanted)}
    told = client.get("/api/jobs?state=retry&class=MailJob&error=Timeout&tag=eu").json
    assert {row["jid"] for row in told["jobs"]} == expected
    assert 0 < len(expected) < 40


def test_pages_of_a_list_follow_each_other_without_a_gap(client: Client) -> None:
    found: list[str] = []
    after = ""
    while True:
        told = client.get(f"/api/jobs?state=retry&limit=7&order=newest&after={after}").json
        found += [row["jid"] for row in told["jobs"]]
        after = told["next"]
        if not after:
            break
    newest = client.get("/api/jobs?state=retry&limit=500&order=oldest").json["jobs"]
    assert found == [row["jid"] for row in reversed(newest)]
    assert len(found) == 40


def test_pushes_in_the_outbox_are_listed_where_there_are_any(app: App, client: Client, redis: redis_py.Redis) -> None:
    assert "state=outbox" not in client.get("/jobs").text
    redis.sadd("pyworkers:outboxes", "other")
    entry = line_entry.written(b'{"class":"Mail","args":[1],"jid":"j1","queue":"mail"}', "mail", 1.0, id="p1")
    redis.lpush("pyworkers:outbox:other", entry)
    client = Client(application(app, authorize=lambda environ, action: True))
    assert "state=outbox" in client.get("/jobs").text
    found = client.get("/api/jobs?state=outbox").json
    assert [row["jid"] for row in found["jobs"]] == ["j1"]
    client.sure("/jobs/delete", {"state": "outbox", "all": "yes"})
    assert redis.llen("pyworkers:outbox:other") == 0


# --- the audit


def test_each_change_is_in_the_audit_with_who_has_made_it_and_how_many(app: App, client: Client) -> None:
    client.post("/queue/pause", {"name": "mail"}, REMOTE_USER="ada", REMOTE_ADDR="10.0.0.7")
    client.sure("/jobs/delete", {"state": "dead", "all": "yes"}, REMOTE_USER="bob")
    client.post("/queue/nosuch", {"name": "mail"})
    client.get("/queues")
    told = client.get("/api/audit").json["actions"]
    assert [(one["who"], one["action"], one["count"]) for one in told] == [
        ("bob", "jobs delete", 30), ("ada", "queue pause", 1),
    ]  # fmt: skip
    assert told[1]["what"] == "queue mail is paused"
    assert told[1]["source"] == "10.0.0.7"
    page = client.get("/audit").text
    assert "queue mail is paused" in page


def test_a_change_over_many_requests_is_one_entry_with_what_the_server_has_counted(
    client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "goworkers_py")
    monkeypatch.setattr("goworkers_py.web.views.bulk.SLICE_S", 0.0)
    redis.zadd("dead", {f'{{"class":"Old","args":["s3"],"jid":"old{n}"}}': 1_000.0 + n for n in range(1_600)})
    fields = {"state": "dead", "all": True, "class": "Old", "argument": "s3"}
    told = client.api("/api/jobs/delete", {**fields, "changed": -4})
    assert told.status == 400, "a sum that no request can have"
    told = client.api("/api/jobs/delete", {**fields, "changed": 1_000_000, "total": 10_000_000}).json
    requests, done = 1, told["count"]
    (entry,) = client.get("/api/audit").json["actions"]  # as if the browser had stopped here
    assert (entry["what"], entry["count"]) == (SCOPE + ": jobs deleted, not finished", done)
    while "go_on" in told:
        told = client.api("/api/jobs/delete", {**told["go_on"]["fields"], "changed": 7}).json
        requests, done = requests + 1, done + told["count"]
    assert (done, requests > 3) == (1_600, True)
    (entry,) = client.get("/api/audit").json["actions"]
    assert (entry["action"], entry["what"], entry["count"]) == ("jobs delete", SCOPE + ": jobs deleted", 1_600)
    lines = [one.getMessage() for one in caplog.records if "jobs delete" in one.getMessage()]
    assert sum(int(line.partition("count=")[2].split()[0]) for line in lines) == 1_600
    assert len(lines) == requests
    assert "s3" not in caplog.text


SCOPE = "all of class Old, by argument in dead"


def test_another_change_cannot_pass_for_a_step_of_a_former_one(client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("dead", {f'{{"class":"{name}","args":[],"jid":"{name}"}}': 1_000.0 for name in ("Old", "New")})
    for name in ("Old", "New"):
        client.api("/api/jobs/delete", {"state": "dead", "all": True, "class": name, "started": "1700000000.5"})
    told = client.get("/api/audit").json["actions"]
    assert [one["what"] for one in told] == [f"all of class {name} in dead: jobs deleted" for name in ("New", "Old")]


def test_a_change_that_fails_in_the_middle_tells_how_far_it_came(
    app: App, client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.zadd("dead", {f'{{"class":"Old","args":[],"jid":"old{n}"}}': 1_000.0 + n for n in range(1_600)})
    delete = Inspector.delete

    def broken(self: Inspector, *told: Any, **more: Any) -> Iterator[Any]:
        yield next(steps := iter(delete(self, *told, **more)))
        yield next(steps)
        raise BrokerUnavailable("the server is away")

    monkeypatch.setattr(Inspector, "delete", broken)
    assert client.api("/api/jobs/delete", {"state": "dead", "all": True, "class": "Old"}).status == 503
    (entry,) = client.get("/api/audit").json["actions"]
    assert entry["what"] == "all of class Old in dead: failed, perhaps in the middle: the server is away"
    assert entry["count"] == 1_600 - sum(1 for _ in app.inspector.jobs(app.inspector.DEAD, Filter(job_class="Old")))
    assert entry["count"] > 0


def test_a_change_that_fails_is_in_the_audit_too(client: Client) -> None:
    assert client.post("/periodic/pause", {"name": "nosuch"}).status == 400
    (entry,) = client.get("/api/audit").json["actions"]
    assert (entry["action"], entry["what"]) == ("periodic pause", "refused, perhaps in the middle")
    options = '{"tags": {"password": "s3cr3t"}}'
    assert client.post("/enqueue", {"class": "Mail", "options": options}).status == 400
    assert SECRET not in client.get("/audit").text


# --- metrics


def test_the_metrics_of_a_class_of_ruby_are_shown_by_time_with_percentiles(client: Client) -> None:
    assert eventually(lambda: client.get("/api/metrics?hours=8").json["classes"])
    told = client.get("/api/metrics?hours=8").json
    assert {one["job_class"] for one in told["classes"]} == set(web_scene.CLASSES)
    (mail,) = [one for one in told["classes"] if one["job_class"] == "MailJob"]
    found = client.get("/api/metrics/class?name=MailJob&hours=8").json["metrics"]
    assert (found["runs"], found["failures"]) == (mail["runs"], mail["failures"])
    assert mail["runs"] > 1_000
    assert 65 <= found["p50_ms"] <= found["p99_ms"] <= 150
    assert sum(bar["value"] for bar in told["bars"]) == sum(one["runs"] for one in told["classes"])
    assert "release 118" in client.get("/metrics/class?name=MailJob").text
    assert client.get("/api/metrics?hours=3").status == 400


def test_a_class_that_has_not_run_has_a_page(client: Client) -> None:
    assert "It has not run in the last 1 hours" in client.get("/metrics/class?name=nosuch").text
