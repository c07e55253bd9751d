"""The JSON API: pushes by HTTP, results, errors, its description by OpenAPI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
import web_scene
from apps import own_app, working
from wsgi_client import Client

from goworkers_py import App, EnqueueOptions
from goworkers_py.config.options import QueueConfig
from goworkers_py.web import application
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.site.openapi import document
from goworkers_py.web.site.rates import Rates
from goworkers_py.web.views.all_views import TABLE

OPENAPI = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="q", concurrency=1), timeout=1) as made:
        yield made


@pytest.fixture
def client(app: App) -> Client:
    return Client(application(app, authorize=lambda environ, action: True))


def waiting(app: App, queue: str = "q") -> list[dict[str, Any]]:
    jobs = app.inspector.first(app.inspector.waiting_in(queue), 2_000)
    return [dict(job.message.fields) for job in jobs if job.message]


# --- pushes


def test_a_job_is_pushed_as_by_the_program_itself(app: App, client: Client) -> None:
    body = {"class": "Send", "args": ["ada", 1.5, None], "queue": "q", "options": {"retry": 3, "tags": ["eu"]}}
    told = client.api("/api/enqueue", body).json
    app.enqueue_with_options("q", "Send", ["ada", 1.5, None], EnqueueOptions(retry=3, tags=["eu"]))
    first, second = waiting(app)
    assert first["jid"] == told["jid"]
    for changing in ("jid", "created_at", "enqueued_at"):
        del first[changing], second[changing]
    assert first == second


def test_a_job_is_pushed_for_later_with_keyword_arguments(app: App, client: Client) -> None:
    client.api("/api/enqueue", {"class": "Send", "kwargs": {"to": "ada"}, "queue": "q", "at": "+1h"})
    (job,) = app.inspector.jobs(app.inspector.SCHEDULED)
    assert job.message is not None
    assert job.message.kwargs == {"to": "ada"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"args": []}, "class is missing"), ({"class": "A", "args": {}}, "args: must be a JSON array"),
        ({"class": "A", "kwargs": []}, "kwargs: must be a JSON object"), ({"class": 7}, "class: must be a text"),
        ({"class": "A", "options": {"retri": 3}}, "retri"), ({"class": "A", "quene": "x"}, "did you mean 'queue'?"),
        ({"class": "A", "at": "soon"}, "at: 'soon' is no time"), ({"class": "A", "options": {"retry": -1}}, "retry"),
    ],
)  # fmt: skip
def test_a_wrong_push_is_refused_and_says_why(app: App, client: Client, body: dict[str, Any], told: str) -> None:
    answer = client.api("/api/enqueue", body)
    assert answer.status == 400
    assert told in answer.json["error"]
    assert app.inspector.queues() == []


def test_many_jobs_are_pushed_in_their_order(app: App, client: Client) -> None:
    jobs = [{"class": f"C{n}", "args": [n], "queue": "q"} for n in range(300)]
    told = client.api("/api/enqueue/bulk", {"jobs": jobs}).json
    assert [job["jid"] for job in waiting(app)] == told["jids"]
    assert [job["class"] for job in waiting(app)] == [f"C{n}" for n in range(300)]
    assert told["count"] == 300


def test_of_many_jobs_none_is_pushed_when_one_is_wrong(app: App, client: Client) -> None:
    for wrong in ({"args": []}, {"class": "A", "args": 1}, {"class": "A", "nosuch": 1}, 7, {"class": "A", "at": "x"}):
        answer = client.api("/api/enqueue/bulk", {"jobs": [{"class": "A", "queue": "q"}, wrong]})
        assert (answer.status, answer.json["error"][:8]) == (400, "jobs[1]:")
    for jobs in ([], {}, [{"class": "A"}] * 1_001):
        assert client.api("/api/enqueue/bulk", {"jobs": jobs}).status == 400
    assert waiting(app) == []


def test_who_may_only_view_pushes_nothing(app: App) -> None:
    client = Client(application(app, authorize=lambda environ, action: action == "view"))
    assert client.api("/api/enqueue", {"class": "A", "queue": "q"}).status == 403
    assert client.get("/api/queues").status == 200
    assert waiting(app) == []


def test_a_person_pushes_a_job_by_a_form(app: App, client: Client) -> None:
    assert 'name="class"' in client.get("/enqueue-form").text
    fields = {"class": "Send", "args": '["ada"]', "kwargs": "", "options": '{"retry": 1}', "queue": "q", "at": ""}
    assert client.post("/enqueue", fields).status == 303
    (job,) = waiting(app)
    assert (job["class"], job["args"], job["retry"]) == ("Send", ["ada"], 1)


# --- results


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


# --- limits


def test_a_user_who_makes_too_many_changes_has_to_wait_and_another_does_not() -> None:
    now = [0.0]
    rates = Rates(per_s=1, burst=3, clock=lambda: now[0])
    for _ in range(3):
        rates.take("ada")
    with pytest.raises(Refused) as caught:
        rates.take("ada")
    assert (caught.value.status, dict(caught.value.headers)) == (429, {"Retry-After": "1"})
    rates.take("bob")
    now[0] = 1.0
    rates.take("ada")
    for number in range(10_100):
        rates.take(str(number))
    assert len(rates._buckets) == 10_000


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"7", b'"x"', b"{", b"[" * 50_000, b'{"class": NaN}', b'{"class": "\\ud800"}', b"\xff\xfe{}"]
)
def test_a_hostile_body_is_an_error_of_the_sender(client: Client, app: App, body: bytes) -> None:
    answer = client.ask("POST", "/api/enqueue", body, {"Content_Type": "application/json"})
    assert answer.status == 400
    assert answer.json["error"]
    assert app.inspector.queues() == []


# --- the description


def test_the_file_of_the_docs_is_the_description_of_today() -> None:
    told = json.loads(json.dumps(document(TABLE)))
    assert json.loads(OPENAPI.read_text("utf-8")) == told, "run bin/openapi"


def test_every_view_and_action_is_described_with_its_parameters() -> None:
    paths = document(TABLE)["paths"]
    assert {path for path, methods in paths.items() if "get" in methods} == set(TABLE.views)
    assert {path for path, methods in paths.items() if "post" in methods} == set(TABLE.actions)
    for path, methods in paths.items():
        for method, one in methods.items():
            assert len(one["description"]) > 15, f"{method} {path}"
    names = [one["operationId"] for methods in paths.values() for one in methods.values()]
    assert len(names) == len(set(names))


def test_each_get_answers_as_described(app: App, client: Client, redis: redis_py.Redis) -> None:
    scene = web_scene.fill(app, redis)
    samples = {"name": "mail", "jid": scene.tracked, "bid": scene.bid, "cid": scene.cid, "queue": "billing",
               "class": "Invoice", "state": "waiting", "identity": "none"}  # fmt: skip
    for path, methods in document(TABLE)["paths"].items():
        if "get" not in methods:
            continue
        needed = [one["name"] for one in methods["get"]["parameters"] if one.get("required")]
        asked = {name: samples[name] for name in needed}
        asked |= {"/limit": {"name": "stripe"}, "/periodic/one": {"name": "nightly"}, "/group": {"name": "user:7"},
                  "/job/raw": {"state": "waiting", "queue": "reports"}}.get(path, {})  # fmt: skip
        answer = client.get(f"/api{path}?{'&'.join(f'{name}={value}' for name, value in asked.items())}")
        assert str(answer.status) in methods["get"]["responses"] or answer.status == 202, f"{path}: {answer.text}"
        assert isinstance(answer.json, dict)


def test_each_post_refuses_an_unknown_field(client: Client) -> None:
    for path in TABLE.actions:
        answer = client.api(f"/api{path}", {"nosuch": 1})
        assert answer.status == 400
        assert "nosuch is not a field" in answer.json["error"]
