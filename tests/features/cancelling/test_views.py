"""The buttons that cancel a job, or those that run."""

from __future__ import annotations

import threading
import time

from apps import own_app, working
from waiting import eventually
from web_scene import Scene
from wsgi_client import Client

from goworkers_py import App, EnqueueOptions
from goworkers_py.admin.places import waiting_in
from goworkers_py.config.options import QueueConfig
from goworkers_py.web import application


def keys(client: Client, query: str) -> list[str]:
    return [one["row"]["key"] for one in client.get(f"/api/jobs?{query}").json["running"]]


def test_a_waiting_job_is_cancelled(app: App, client: Client, scene: Scene) -> None:
    told = client.api("/api/job/cancel", {"jid": scene.tracked}).json
    assert told["answer"] == "cancelled"
    assert app.inspector.status(scene.tracked).state == "cancelled"


def test_cancel_asks_first_and_leaves_what_the_command_leaves(app: App, client: Client) -> None:
    jid = app.enqueue_with_options("mail", "Mail", ["ada"], EnqueueOptions(track=True)) or ""
    asked = client.post("/job/cancel", {"jid": jid})
    assert (asked.status, f"Cancel job {jid} for good?" in asked.text) == (200, True)
    assert app.status(jid).state == "waiting"
    assert client.sure("/job/cancel", {"jid": jid}).status == 303
    assert app.status(jid).state == "cancelled"
    assert app.inspector.count(waiting_in("mail")) == 0
    assert client.api("/api/job/cancel", {"jid": jid}).json["answer"] == app.cancel(jid) == "cancelled"


def test_running_jobs_are_cancelled_and_those_that_wait_stay(redis_url: str) -> None:
    with own_app(redis_url, QueueConfig("mail", 3)) as app:
        begun = threading.Semaphore(0)

        @app.job("Long", queue="mail")
        def long(number: int) -> None:
            begun.release()
            while True:
                time.sleep(0.01)

        client = Client(application(app, authorize=lambda environ, action: True))
        with working(app):
            for number in range(3):
                long.enqueue(number)
                assert begun.acquire(timeout=30)
            later = str(long.enqueue(3))
            assert eventually(lambda: len(keys(client, "state=running")) == 3)
            [first, *_] = keys(client, "state=running&argument=1")
            asked = client.post("/jobs/cancel", {"job": [first]}).text
            assert "Cancel 1 job in the middle of their runs?" in asked
            client.sure("/jobs/cancel", {"job": [first]})
            assert "1 job cancelled" in client.get("/").text
            assert begun.acquire(timeout=30), "the next one begins"
            asked = client.post("/jobs/cancel", {"all": "yes", "argument": "2"}).text
            assert "Cancel 1 job with the argument 2 in the middle" in asked
            all_of_mail = {"all": "yes", "queue": "mail"}
            question = "Cancel 3 jobs of queue mail in the middle"  # the cancelled one may still be leaving
            assert eventually(lambda: question in client.post("/jobs/cancel", all_of_mail).text)
            elsewhere = client.get("/api/jobs?state=running&queue=other").json
            assert (elsewhere["running"], elsewhere["total"]) == ([], 0)
            told = client.api("/api/jobs/cancel", {"all": True, "queue": "mail"}).json
            assert (told["count"], told["requested"], told["too_late"]) == (3, 0, 0)
        assert app.inspector.status(later).state == "unknown"
        assert client.sure("/jobs/cancel", {}).status == 400
        assert client.sure("/jobs/cancel", {"job": ["nothing"]}).status == 400
