"""The page of reports, and commands to a process on its page."""

from __future__ import annotations

import json
import time
from urllib.parse import urlencode

import redis as redis_py
from apps import own_app, started
from waiting import eventually
from web_processes import ProcessScene, ruby_process
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.web import application
from goworkers_py.web.site.hiding import MASK


def test_reports_are_listed_newest_first_without_secrets_and_can_be_followed(app: App, client: Client) -> None:
    assert "No program has reported anything" in client.get("/reports").text
    app.report("import", {"rows": 1, "api_token": "s3cr3t"})
    app.report("<img src=x onerror=alert(1)>", {"rows": 2})
    app.report("import", {"rows": 3})
    found = client.get("/api/reports").json
    assert [one["body"]["rows"] for one in found["reports"]] == [3, 2, 1]
    assert found["reports"][-1]["body"]["api_token"] == MASK
    assert [one["body"]["rows"] for one in client.get("/api/reports?name=import&limit=1").json["reports"]] == [3]
    app.report("import", {"rows": 4})
    followed = client.get(f"/api/reports?after={found['position']}").json
    assert [one["body"]["rows"] for one in followed["reports"]] == [4]
    assert client.get(f"/api/reports?after={followed['position']}").json["position"] == followed["position"]
    page = client.get("/reports").text
    assert "s3cr3t" not in page
    assert "<img src=x" not in page


def test_a_process_obeys_a_command_of_its_own_program(redis_url: str) -> None:
    with own_app(redis_url, QueueConfig("mail", 3)) as app:
        flushed: list[str] = []

        @app.command("flush-cache")
        def flush(name: str) -> str:
            flushed.append(name)
            return f"{name} is empty"

        @app.command("settings")
        def settings(form: str) -> object:
            told = {"rows": 3, "api_token": "s3cr3t"}
            if form == "error":
                raise ValueError("token s3cr3t is refused")
            return {"dict": told, "json": json.dumps(told), "text": "token: s3cr3t"}[form]

        with started(app, lambda command, who: None):
            client = Client(application(app, authorize=lambda environ, action: True))
            assert eventually(lambda: len(app.inspector.processes()) == 1)
            one = {"identity": app.inspector.processes()[0].identity}
            page = client.get("/process?" + urlencode(one)).text
            assert '<option value="flush-cache">' in page
            told = client.api("/api/process/call", {**one, "name": "flush-cache", "args": ["prices"]}).json
            assert (told["count"], told["answers"][0]["value"], flushed) == (1, "prices is empty", ["prices"])
            client.post("/process/call", {**one, "name": "flush-cache", "args": '["all"]'})
            assert flushed == ["prices", "all"]
            for form in ("dict", "json", "text", "error"):
                given = {**one, "name": "settings"}
                told = client.api("/api/process/call", {**given, "args": [form]})
                assert ("s3cr3t" in told.text, "(hidden)" in told.text) == (False, True)
                client.post("/process/call", {**given, "args": json.dumps([form])})
                assert "(hidden)" in (page := client.get("/process?" + urlencode(one)).text)
                assert "s3cr3t" not in page + client.get("/audit").text
            assert client.api("/api/process/call", {**one, "name": "stop"}).status == 400
            assert "Let a new process with new code replace" in client.post("/process/reload", one).text
            told = client.api("/api/process/reload", one).json
            assert (told["count"], "has no parent that could replace it" in told["said"]) == (0, True)


def test_a_process_obeys_and_its_answer_is_shown(redis_url: str) -> None:
    with own_app(redis_url, QueueConfig("mail", 3)) as app, started(app, lambda command, who: None):
        client = Client(application(app, authorize=lambda environ, action: True))
        assert eventually(lambda: len(app.inspector.processes()) == 1)
        (process,) = app.inspector.processes()
        one = {"identity": process.identity}
        assert "Show stacks" in client.get("/process?" + urlencode(one)).text
        dumped = client.post("/process/dump", one)
        assert (dumped.status, "worker:mail" in dumped.text) == (200, True)
        assert client.api("/api/process/quiet", one).json["count"] == 1
        assert eventually(lambda: app.inspector.processes()[0].quiet)
        assert client.post("/process/resume", one).status == 303
        assert eventually(lambda: not app.inspector.processes()[0].quiet)
        answer = client.api("/api/process/concurrency", {**one, "threads": 2}).json["answers"][0]
        assert (answer["identity"], answer["ok"]) == (process.identity, True)
        assert client.api("/api/process/pause-queue", {**one, "queue": "nosuch"}).json["count"] == 0
        assert client.post("/process/log-level", {**one, "level": "loud"}).status == 400


def test_sidekiq_is_asked_by_its_signal_after_a_question(client: Client, redis: redis_py.Redis) -> None:
    ruby_process(redis, ProcessScene("web-1:42:ab12", [("mail", 5, ["mail"])]), time.time())
    one = {"identity": "web-1:42:ab12"}
    assert "Only a restart has it fetch jobs again" in client.post("/process/quiet", one).text
    assert not redis.exists("web-1:42:ab12-signals")
    client.sure("/process/quiet", one)
    assert redis.lrange("web-1:42:ab12-signals", 0, -1) == [b"TSTP"]
    refused = client.api("/api/process/log-level", {**one, "level": "debug"}).json
    assert (refused["count"], "does not know log-level" in refused["said"]) == (0, True)


def test_a_process_that_is_gone_has_a_page_and_takes_no_command(client: Client) -> None:
    assert "No live process has this identity" in client.get("/process?identity=gone").text
    assert client.sure("/process/stop", {"identity": "gone"}).status == 404
