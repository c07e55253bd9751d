"""The JSON API: pushes by HTTP, errors, its description by OpenAPI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
import web_scene
from apps import own_app
from schemas import misfit, referred
from wsgi_client import Client

from goworkers_py import App, EnqueueOptions
from goworkers_py.config.job_options import PushOptions, options_of
from goworkers_py.config.options import QueueConfig
from goworkers_py.web import application
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.site.access_file import token_line
from goworkers_py.web.site.by_file import ByFile
from goworkers_py.web.site.openapi import document
from goworkers_py.web.site.rates import Rates
from goworkers_py.web.views.all_views import TABLE


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="q", concurrency=1), timeout=1) as made:
        yield made


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


@pytest.mark.parametrize(
    "wrong",
    [
        b'{"class": "A", "args": [1e400]}', b'{"class": "A", "args": ["\\ud800"]}',
        b'{"class": "A", "kwargs": {"one": 1e400}}', b'{"class": "A", "options": {"unique_until": "start"}}',
        b'{"class": "A", "args": %s1%s}' % (b"[" * 300, b"]" * 300), b'{"class": "A", "options": {"at": 1}}',
    ],
)  # fmt: skip
def test_of_many_jobs_none_is_pushed_when_one_cannot_be_written(app: App, client: Client, wrong: bytes) -> None:
    body = b'{"jobs": [{"class": "A", "queue": "q"}, %s]}' % wrong
    answer = client.ask("POST", "/api/enqueue/bulk", body, {"Content_Type": "application/json"})
    assert (answer.status, answer.json["error"][:8]) == (400, "jobs[1]:")
    assert waiting(app) == []


def test_many_jobs_are_repeated_with_their_jids_and_none_is_there_twice(app: App, client: Client) -> None:
    jobs = [{"class": "A", "queue": "q", "options": {"jid": f"j{n}", "track": True}} for n in range(3)]
    assert client.api("/api/enqueue/bulk", {"jobs": jobs[:2]}).json["jids"] == ["j0", "j1"]
    told = client.api("/api/enqueue/bulk", {"jobs": jobs}).json
    assert told["jids"] == [None, None, "j2"]
    assert [problem[:17] for problem in told["problems"]] == ["jobs[0]: job j0 i", "jobs[1]: job j1 i"]
    assert [job["jid"] for job in waiting(app)] == ["j0", "j1", "j2"]


def test_a_second_job_with_the_jid_or_the_lock_of_another_is_a_conflict(app: App, client: Client) -> None:
    for options in ({"jid": "j1", "track": True}, {"unique_for": 60, "on_conflict": "raise"}):
        body = {"class": "A", "queue": "q", "options": options}
        assert client.api("/api/enqueue", body).status == 200
        answer = client.api("/api/enqueue", body)
        assert answer.status == 409
        assert "no second one was pushed" in answer.json["error"]
    assert len(waiting(app)) == 2


def test_the_last_of_two_members_of_a_name_counts_as_in_the_checks(app: App, client: Client) -> None:
    body = b'{"queue": "other", "class": "A", "class": "B", "queue": "q"}'
    assert client.ask("POST", "/api/enqueue", body, {"Content_Type": "application/json"}).status == 200
    assert [job["class"] for job in waiting(app)] == ["B"]


def test_no_partition_is_the_main_one_and_a_partition_is_a_text(app: App, client: Client) -> None:
    assert client.api("/api/enqueue", {"class": "A", "queue": "q", "partition": None}).status == 200
    assert client.api("/api/enqueue", {"class": "A", "queue": "q", "partition": ["x"]}).status == 400
    assert client.api("/api/enqueue", {"class": "A", "queue": "q", "partition": "nosuch"}).status == 404
    assert len(waiting(app)) == 1


def test_pushes_of_programs_leave_the_audit_list_to_the_changes_of_people(app: App, client: Client) -> None:
    client.api("/api/enqueue", {"class": "A", "queue": "q"})
    client.api("/api/enqueue/bulk", {"jobs": [{"class": "A", "queue": "q"}]})
    client.api("/api/enqueue", {"class": "A", "args": [float(1)], "queue": "q", "options": {"nosuch": 1}})
    assert client.get("/api/audit").json["actions"] == []
    client.post("/enqueue", {"class": "A", "queue": "q"})
    client.api("/api/queue/pause", {"name": "q"})
    assert [one["action"] for one in client.get("/api/audit").json["actions"]] == ["queue pause", "enqueue"]


# --- who may push


def test_a_program_pushes_with_the_token_of_its_role(app: App, tmp_path: Path) -> None:
    tokens = {role: token_line(role, role) for role in ("view", "act")}
    file = tmp_path / "access"
    file.write_text("".join(f"{line}\n" for line, _ in tokens.values()))
    file.chmod(0o600)
    client = Client(application(app, access=ByFile(str(file))))
    body = {"class": "A", "queue": "q"}
    for role, status in (("view", 403), ("act", 200)):
        assert client.api("/api/enqueue", body, Authorization=f"Bearer {tokens[role][1]}").status == status
    for header in ({}, {"Authorization": "Bearer act.nosuch"}, {"Authorization": "Bearer "}):
        answer = client.api("/api/enqueue", body, **header)
        assert (answer.status, list(answer.json)) == (401, ["error"])
    assert len(waiting(app)) == 1


@pytest.mark.parametrize(
    ("method", "kind", "headers", "status"),
    [
        ("POST", "text/plain", {}, 415), ("POST", "application/x-www-form-urlencoded", {}, 403),
        ("POST", "multipart/form-data; boundary=x", {}, 415), ("POST", "", {}, 403),
        ("POST", "application/json", {"Origin": "http://evil.example"}, 403),
        ("POST", "application/json", {"Sec-Fetch-Site": "cross-site"}, 403), ("PUT", "application/json", {}, 405),
        ("DELETE", "application/json", {}, 405), ("GET", "application/json", {}, 405),
    ],
)  # fmt: skip
def test_a_push_that_another_site_could_send_is_refused_as_json(
    app: App, client: Client, method: str, kind: str, headers: dict[str, str], status: int
) -> None:
    answer = client.ask(method, "/api/enqueue", b'{"class": "A", "queue": "q"}', {"Content_Type": kind, **headers})
    assert answer.status == status
    assert list(answer.json) == ["error"]
    assert waiting(app) == []


def test_a_body_that_is_too_long_is_not_read(app: App, client: Client) -> None:
    answer = client.ask("POST", "/api/enqueue", b" " * 2_000_001, {"Content_Type": "application/json"})
    assert answer.status == 413
    assert "2,000,000 bytes" in answer.json["error"]


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


def test_the_doctor_answers_a_program(app: App, client: Client) -> None:
    client.api("/api/enqueue", {"class": "A", "queue": "nobody"})
    found = client.get("/api/doctor").json["findings"]["value"]
    assert any("nobody" in one["what"] for one in found), found


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
    for half in (0.5, 0.75):  # too fast: refused, and not punished
        now[0] = half
        with pytest.raises(Refused):
            rates.take("ada")
    now[0] = 1.0
    rates.take("ada")
    for number in range(10_100):
        rates.take(str(number))
    assert len(rates._buckets) == 10_000


def test_too_many_changes_are_refused_until_later(app: App) -> None:
    made = application(app, authorize=lambda environ, action: True)
    made._rates = Rates(per_s=0, burst=2)
    client = Client(made)
    statuses = [client.api("/api/enqueue", {"class": "A", "queue": "q"}).status for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert client.api("/api/enqueue", {"class": "A"}).headers["retry-after"] == "1"
    assert client.get("/api/queues").status == 200
    assert client.api("/api/enqueue", {"class": "A"}, Remote_Addr="192.0.2.7").status == 200


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"7", b'"x"', b"{", b"[" * 50_000, b'{"class": NaN}', b'{"class": "\\ud800"}', b"\xff\xfe{}"]
)
def test_a_hostile_body_is_an_error_of_the_sender(client: Client, app: App, body: bytes) -> None:
    answer = client.ask("POST", "/api/enqueue", body, {"Content_Type": "application/json"})
    assert answer.status == 400
    assert answer.json["error"]
    assert app.inspector.queues() == []


# --- the description


def test_every_view_and_action_is_described_with_its_parameters() -> None:
    paths = document(TABLE)["paths"]
    assert {path for path, methods in paths.items() if "get" in methods} == set(TABLE.views)
    assert {path for path, methods in paths.items() if "post" in methods} == set(TABLE.actions)
    for path, methods in paths.items():
        for method, one in methods.items():
            assert len(one["description"]) > 15, f"{method} {path}"
    names = [one["operationId"] for methods in paths.values() for one in methods.values()]
    assert len(names) == len(set(names))


def schema_of(told: dict[str, Any]) -> dict[str, Any]:
    schema = told["content"]["application/json"]["schema"]
    assert isinstance(schema, dict)
    return schema


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from ([value["$ref"]] if "$ref" in value else [])
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from references(one)


def test_the_description_is_well_formed() -> None:
    told = document(TABLE)
    assert told["openapi"] == "3.1.0"
    assert all(referred(reference, told) for reference in references(told))
    for path, methods in told["paths"].items():
        for one in methods.values():
            assert all(answer["description"] for answer in one["responses"].values())
            names = [parameter["name"] for parameter in one["parameters"]]
            assert len(names) == len(set(names)), path
            for parameter in one["parameters"]:
                default = parameter["schema"].get("default")
                assert default is None or misfit(default, parameter["schema"], told) == "", path


def test_a_push_and_its_answer_are_as_described(client: Client) -> None:
    told = document(TABLE)
    good: list[dict[str, Any]] = [
        {"class": "A", "queue": "q"},
        {"class": "A", "args": [1], "kwargs": {"a": 1}, "at": "+1h", "options": {"retry": 3, "track": True}},
        {"class": "A", "at": 4102444800},
    ]
    bad: list[dict[str, Any]] = [
        {}, {"class": 7}, {"class": "A", "args": {}}, {"class": "A", "kwargs": []}, {"class": "A", "nosuch": 1},
        {"class": "A", "options": {"retri": 1}}, {"class": "A", "options": {"at": 1}}, {"class": "A", "at": []},
    ]  # fmt: skip
    for path, wrap in (("/enqueue", lambda one: one), ("/enqueue/bulk", lambda one: {"jobs": [one]})):
        described = told["paths"][path]["post"]
        asked = schema_of(described["requestBody"])
        for one in good + bad:
            answer = client.api(f"/api{path}", wrap(one))
            assert answer.status == (200 if one in good else 400), one
            assert (misfit(wrap(one), asked, told) == "") == (one in good), one
            assert misfit(answer.json, schema_of(described["responses"][str(answer.status)]), told) == "", one


def test_the_options_of_a_push_are_described_as_they_are_read() -> None:
    described = schema_of(document(TABLE)["paths"]["/enqueue"]["post"]["requestBody"])["properties"]["options"]
    assert set(described["properties"]) == set(options_of(PushOptions)) - {"at"}


def test_each_get_answers_as_described(app: App, client: Client, redis: redis_py.Redis) -> None:
    scene = web_scene.fill(app, redis)
    samples = {"name": "mail", "jid": scene.tracked, "bid": scene.bid, "cid": scene.cid, "queue": "billing",
               "class": "Invoice", "state": "waiting", "identity": "none"}  # fmt: skip
    told_of_all = document(TABLE)
    for path, methods in told_of_all["paths"].items():
        if "get" not in methods:
            continue
        needed = [one["name"] for one in methods["get"]["parameters"] if one.get("required")]
        asked = {name: samples[name] for name in needed}
        asked |= {"/limit": {"name": "stripe"}, "/periodic/one": {"name": "nightly"}, "/group": {"name": "user:7"},
                  "/job/raw": {"state": "waiting", "queue": "reports"}}.get(path, {})  # fmt: skip
        answer = client.get(f"/api{path}?{'&'.join(f'{name}={value}' for name, value in asked.items())}")
        told = methods["get"]["responses"]
        assert str(answer.status) in told, f"{path}: {answer.text}"
        assert misfit(answer.json, schema_of(told[str(answer.status)]), told_of_all) == "", path


def test_each_post_refuses_an_unknown_field(client: Client) -> None:
    for path in TABLE.actions:
        answer = client.api(f"/api{path}", {"nosuch": 1})
        assert answer.status == 400
        assert "nosuch is not a field" in answer.json["error"]
