"""The search for a page."""

from __future__ import annotations

from urllib.parse import urlencode

import redis as redis_py
from page_jobs import AT, failed, sidekiq_process
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.config.enqueue_options import EnqueueOptions


def test_the_palette_finds_queues_classes_processes_and_jobs(app: App, client: Client, redis: redis_py.Redis) -> None:
    sidekiq_process(redis, "mailer:42:ab12")
    app.enqueue("mail", "X", [])
    app.enqueue("hotmail", "X", [])
    redis.zadd("retry", {failed("ab" * 12, job_class="MailJob"): AT})
    client.get("/failures")
    found = client.get("/api/find?q=MAIL").json["found"]
    assert [(one["kind"], one["name"]) for one in found] == [
        ("queue", "mail"), ("queue", "hotmail"), ("class", "MailJob"), ("process", "mailer:42:ab12"),
    ]  # fmt: skip
    assert found[0]["to"] == "/queue?name=mail"
    (hit,) = client.get("/api/find?q=" + "ab" * 12).json["found"]
    assert hit["kind"] == "job"
    assert client.get("/api" + hit["to"]).json["state"] == "retry"


def test_a_whole_jid_leads_to_its_job(app: App, client: Client) -> None:
    jid = app.enqueue_with_options("mail", "Mail", [], EnqueueOptions(track=True, jid="order 7/ä"))
    answer = client.get("/find?" + urlencode({"q": "order 7/ä"}))
    assert answer.status == 303
    assert client.get("/api" + answer.location).json["jid"] == jid


def test_nothing_found_is_said(client: Client) -> None:
    assert client.get("/api/find?q=").json["found"] == []
    assert "no job was seen with this jid" in client.get("/find?q=zzz").text
    assert client.get("/find?q=%FF").status == 200


def test_at_most_twenty_are_found(client: Client, redis: redis_py.Redis) -> None:
    redis.sadd("queues", *[f"mail-{number}" for number in range(200)])
    assert len(client.get("/api/find?q=mail").json["found"]) <= 20
