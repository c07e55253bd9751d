"""The pages of processes: what they show."""

from __future__ import annotations

import json
import re
import time

import redis as redis_py
from apps import own_app, working
from page_jobs import job, sidekiq_process, where
from waiting import eventually
from web_processes import ProcessScene, go_process, python_process, ruby_process
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.web import application
from goworkers_py.web.site.filters import NOTHING


def test_processes_in_any_language_are_listed(redis_url: str, redis: redis_py.Redis) -> None:
    sidekiq_process(redis)
    with own_app(redis_url, QueueConfig("mail", 3)) as app, working(app):
        client = Client(application(app, authorize=lambda environ, action: True))
        assert eventually(lambda: len(app.inspector.processes()) == 2)
        shown = client.get("/api/processes").json
        told = {one["language"]: one["process"]["concurrency"] for one in shown["processes"]}
        assert told == {"Python": 3, "Ruby": 5}
        assert (shown["total"], shown["threads"]) == (2, 8)
        assert "<meter" in client.get("/processes").text


def test_the_cpu_of_a_process_is_shown_where_it_tells_that(app: App, client: Client, redis: redis_py.Redis) -> None:
    python_process(redis, ProcessScene("py:1:aaaaaaaaaaaa", [("mail", 3, ["mail"])], cpu_share=1.374), time.time())
    sidekiq_process(redis)
    cell = re.findall(r'data-label="CPU">(.*?)</td>', client.get("/processes").text)
    assert cell == ["137.4 %", NOTHING] or cell == [NOTHING, "137.4 %"]
    told = {one["language"]: one["process"]["cpu_share"] for one in client.get("/api/processes").json["processes"]}
    assert told == {"Python": 1.374, "Ruby": None}
    assert "<strong>137.4 %</strong>" in client.get("/process?identity=py:1:aaaaaaaaaaaa").text
    assert client.get("/api/process?identity=py:1:aaaaaaaaaaaa").json["process"]["cpu_share"] == 1.374
    assert client.get("/process?identity=web-1:42:ab12").status == 200


def test_the_jobs_of_one_process_are_shown_and_not_those_of_others(client: Client, redis: redis_py.Redis) -> None:
    for identity, jid in (("a:1:x", "ja"), ("b:2:y", "jb")):
        sidekiq_process(redis, identity)
        work = {"queue": "mail", "payload": job(jid), "run_at": int(time.time()) - 5}
        redis.hset(f"{identity}:work", "t1", json.dumps(work))
    shown = client.get("/api/process?identity=a%3A1%3Ax").json
    assert [one["row"]["jid"] for one in shown["running"]] == ["ja"]
    found = client.get("/api" + where("jb", state="running")).json
    assert (found["state"], found["process"], found["row"]["queue"]) == ("running", "b:2:y", "mail")


def test_a_process_of_go_shows_its_jobs_and_offers_no_command(app: App, client: Client, redis: redis_py.Redis) -> None:
    name = "go-1:77:dcd959843c076876427ce5c6"
    payload = b'{"class":"GoJob","args":[1],"jid":"a","queue":"mail"}'
    go_process(redis, ProcessScene(name, [("mail", 2, ["mail"])], [("mail", payload)]), time.time())
    told = client.get(f"/api/process?identity={name}").json
    assert (told["language"], told["commands"], told["running"][0]["since"]) == ("Go", [], None)
    assert "kill -TERM 77" in client.get(f"/process?identity={name}").text
    refused = client.api("/api/process/stop", {"identity": name}).json
    assert (refused["count"], "kill -TERM 77` on go-1" in refused["said"]) == (0, True)
    assert not redis.exists(f"{name}-signals")
    assert [one["since"] for one in client.get("/api/jobs?state=running").json["running"]] == [None]
    assert "GoJob" in client.get("/jobs?state=running&sort=since").text
    assert client.api("/api/job/cancel", {"jid": "a"}).json["answer"] == "runs in Go"
    done = client.api("/api/jobs/cancel", {"all": True}).json
    assert (done["count"], done["foreign"]) == (0, 1)
    assert "1 more stay" in client.post("/jobs/cancel", {"all": "yes"}).text


def test_a_process_of_sidekiq_before_7_is_ruby(app: App, client: Client, redis: redis_py.Redis) -> None:
    ruby_process(redis, ProcessScene("web-1:42:ab12", [("default", 5, ["mail"])], version=""), time.time())
    assert [one["language"] for one in client.get("/api/processes").json["processes"]] == ["Ruby"]
