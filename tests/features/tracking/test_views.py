"""The state and the result of a job by HTTP, and on the pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
import web_scene
from apps import own_app, working
from waiting import eventually
from wsgi_client import Client

from goworkers_py import App, current_message
from goworkers_py.config.options import QueueConfig
from goworkers_py.features.tracking import views as results


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="q", concurrency=1), timeout=1) as made:
        yield made


def test_a_result_is_waited_for_and_each_end_has_a_status_of_its_own(app: App, client: Client) -> None:
    @app.job("Adds", queue="q", retain=60)
    def adds(one: int, two: int) -> dict[str, Any]:
        return {"sum": one + two, "password": "s3cr3t"}

    @app.job("Fails", queue="q", retain=60, retry=False)
    def fails() -> None:
        raise ValueError("no")

    options = {"retain": 60}
    ran, failed = (
        client.api("/api/enqueue", {"class": name, "args": args, "queue": "q", "options": options | more}).json["jid"]
        for name, args, more in (("Adds", [1, 2], {}), ("Fails", [], {"retry": False}))
    )
    assert client.get(f"/api/result?jid={ran}").status == 202
    assert client.get(f"/api/status?jid={ran}").json["state"] == "waiting"
    with working(app):
        assert client.get(f"/api/result?jid={ran}&timeout=10").json == {
            "ended": True, "result": {"sum": 3, "password": "(hidden)"},
        }  # fmt: skip
        gone = client.get(f"/api/result?jid={failed}&timeout=10")
    assert (gone.status, gone.json["error_class"], gone.json["error_message"]) == (409, "ValueError", "no")
    cancelled = client.api("/api/enqueue", {"class": "Adds", "queue": "q", "options": options}).json["jid"]
    client.api("/api/job/cancel", {"jid": cancelled})
    assert client.get(f"/api/result?jid={cancelled}").status == 410
    assert client.get("/api/result?jid=nosuch&timeout=5").status == 404


def test_no_wait_is_longer_than_ten_seconds_and_a_crowd_does_not_wait(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(jid: str, timeout: float) -> None:
        waits.append(timeout)
        raise TimeoutError("not ended")

    monkeypatch.setattr(app, "result", wait)
    for timeout in ("1h", "2", "0"):
        assert client.get(f"/api/result?jid=j&timeout={timeout}").status == 202
    room = threading.BoundedSemaphore(1)
    monkeypatch.setattr(results, "_room", room)
    with room:
        assert client.get("/api/result?jid=j&timeout=9").status == 202
    assert client.get("/api/result?jid=j&timeout=9").status == 202
    assert waits == [10, 2, 0, 0, 9]
    for timeout in ("-1", "nan", "inf", "x"):
        assert client.get(f"/api/result?jid=j&timeout={timeout}").status == 400


def test_a_result_progress_and_the_end_of_a_tracked_job_are_shown_with_hidden_values_masked(
    app: App, client: Client
) -> None:
    @app.job("Report", queue="q", retain=600)
    def report(month: int) -> dict[str, Any]:
        current_message().progress(3, 4, "page 3")  # type: ignore[union-attr]
        return {"month": month, "api_token": "s3cret"}

    with working(app):
        jid = report.enqueue(11)
        assert eventually(lambda: app.status(jid).state == "completed")
    shown = client.get(f"/api/job?jid={jid}").json
    assert (shown["state"], shown["result"]["value"]) == ("completed", {"month": 11, "api_token": "(hidden)"})
    assert (shown["record"]["progress"]["text"], shown["record"]["percent"]) == ("page 3", 75)
    states = [move["state"] for move in shown["timeline"]]  # the record of a short run leaves out `running`
    assert (states[0], states[-1]) == ("waiting", "completed")


def test_completed_and_cancelled_tracked_jobs_are_listed(app: App, client: Client, redis: redis_py.Redis) -> None:
    scene = web_scene.restored(web_scene.fill, app, redis)
    client.api("/api/job/cancel", {"jid": scene.tracked})
    told = client.get("/api/jobs?state=cancelled").json
    assert [one["jid"] for one in told["ended"]] == [scene.tracked]
    assert scene.tracked in client.get("/jobs?state=cancelled").text
    assert client.get("/api/jobs?state=cancelled&class=Other").json["ended"] == []
