"""Changes of selected jobs and of all that fit a filter, over several requests."""

from __future__ import annotations

import json
import re
import time
from html import unescape
from typing import Any

import pytest
import redis as redis_py
from wsgi_client import Answer, Client

from goworkers_py import App
from goworkers_py.admin.filter import Filter
from goworkers_py.web.views import bulk, questions

NOW = 1_700_000_000.0


def job(number: int, job_class: str = "Mail", **fields: Any) -> str:
    told = {"class": job_class, "args": [number], "jid": f"j{number}", "queue": "mail", "retry": True, **fields}
    return json.dumps(told)


def fill(redis: redis_py.Redis, key: str, count: int, every: int = 1, **fields: Any) -> None:
    """Jobs of class Mail; each `every`-th of class Rare."""
    jobs = {job(i, "Rare" if i % every == 0 else "Mail", **fields): NOW + i for i in range(count)}
    redis.zadd(key, jobs)  # type: ignore[arg-type]


def keys(client: Client, query: str) -> list[str]:
    found = client.get(f"/api/jobs?{query}").json
    return [row["key"] for row in (*found["jobs"], *(one["row"] for one in found["running"]))]


def fields_in(page: str) -> dict[str, str | list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page):
        found.setdefault(unescape(name), []).append(unescape(value))
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def to_the_end(client: Client, path: str, answer: Answer) -> tuple[Answer, int]:
    """Sends the form of each page of progress, as a browser does, until the change has ended."""
    rounds = 1
    while answer.status == 200 and "data-go-on" in answer.text:
        form = answer.text[answer.text.index("data-go-on") :]
        answer = client.post(path, fields_in(form))
        rounds += 1
    return answer, rounds


def test_selected_jobs_are_changed_and_no_others(app: App, client: Client, redis: redis_py.Redis) -> None:
    fill(redis, "retry", 120)
    chosen = keys(client, "state=retry&limit=10")[3:6]
    answer = client.post("/jobs/retry", {"state": "retry", "job": chosen})
    assert answer.status == 303
    assert "3 jobs put into their queues" in client.get("/").text
    assert redis.zcard("retry") == 117
    assert {one.jid for one in app.inspector.jobs(app.inspector.waiting_in("mail"))} == {"j3", "j4", "j5"}


def test_a_job_with_the_same_jid_at_another_time_is_not_changed(client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("dead", {job(1): NOW, job(1, again=True): NOW + 5})
    (first, _) = sorted(keys(client, "state=dead"))
    assert client.sure("/jobs/delete", {"state": "dead", "job": [first]}).status == 303
    assert [json.loads(raw).get("again") for raw in redis.zrange("dead", 0, -1)] == [True]


def test_a_selected_job_that_has_left_is_told(client: Client, redis: redis_py.Redis) -> None:
    fill(redis, "retry", 3)
    chosen = keys(client, "state=retry")
    redis.zremrangebyrank("retry", 0, 0)
    client.post("/jobs/retry", {"state": "retry", "job": chosen})
    assert "2 jobs put into their queues; 1 had left before" in client.get("/").text


def test_jobs_of_a_queue_are_deleted_by_selection(client: Client, redis: redis_py.Redis) -> None:
    redis.sadd("queues", "mail")
    redis.lpush("queue:mail", *(job(i) for i in range(20)))
    chosen = keys(client, "state=waiting&queue=mail")[:2]
    assert client.sure("/jobs/delete", {"state": "waiting", "queue": "mail", "job": chosen}).status == 303
    assert redis.llen("queue:mail") == 18


@pytest.mark.parametrize("path", ["/jobs/kill", "/jobs/delete"])
def test_what_loses_jobs_asks_first(client: Client, redis: redis_py.Redis, path: str) -> None:
    fill(redis, "retry", 5)
    answer = client.post(path, {"state": "retry", "all": "yes", "class": "Mail"})
    assert "all jobs of class Mail among 5 jobs in retry?" in answer.text
    assert redis.zcard("retry") == 5


def test_a_question_tells_how_many_fit(client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "COUNT_S", 60.0)
    fill(redis, "retry", 2_600, every=4)
    asked = {"state": "retry", "all": "yes", "class": "Rare"}
    assert "among 2600 jobs in retry? 650 fit now." in client.post("/jobs/delete", asked).text
    monkeypatch.setattr(questions, "COUNT_S", 0.0)
    assert "About 650 fit, as the first 500 tell." in client.post("/jobs/delete", asked).text


def test_a_kill_that_would_push_out_dead_jobs_says_so_first(app: App, client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("dead", {job(100 + n): time.time() - n for n in range(30)})
    fill(redis, "retry", 20)
    app.configure(redis=app.config.broker, dead_max_jobs=40)
    told = client.post("/jobs/kill", {"state": "retry", "all": "yes"}).text
    assert "about 10 will be deleted for good" in told
    chosen = keys(client, "state=retry&limit=15")
    assert "about 5 will be deleted for good" in client.post("/jobs/kill", {"state": "retry", "job": chosen}).text
    assert client.post("/jobs/kill", {"state": "retry", "job": chosen[:5]}).status == 303
    assert (redis.zcard("dead"), redis.zcard("retry")) == (35, 15)


@pytest.mark.parametrize("verb", ["retry", "kill", "delete"])
def test_all_that_fit_are_changed_over_many_requests_as_the_command_does(
    app: App, client: Client, redis: redis_py.Redis, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)  # each request makes one step
    fill(redis, "retry", 2_600, every=3)
    fields = {"state": "retry", "all": "yes", "class": "Rare"}
    answer, rounds = to_the_end(client, f"/jobs/{verb}", client.sure(f"/jobs/{verb}", fields))
    assert answer.status == 303
    assert rounds > 3
    left = {json.loads(raw)["class"] for raw in redis.zrange("retry", 0, -1)}
    assert (redis.zcard("retry"), left) == (1_733, {"Mail"})
    places = {"retry": redis.llen("queue:mail"), "kill": redis.zcard("dead"), "delete": 0}
    assert places[verb] == (0 if verb == "delete" else 867)
    assert "867 jobs" in client.get("/").text


def test_few_jobs_of_a_long_queue_are_all_deleted_while_others_push(
    client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)
    redis.sadd("queues", "mail")
    redis.lpush("queue:mail", *(job(i, "Rare" if i % 100 == 0 else "Mail") for i in range(3_000)))
    answer = client.sure("/jobs/delete", {"state": "waiting", "queue": "mail", "all": "yes", "class": "Rare"})
    rounds = 0
    while answer.status == 200:
        if rounds < 4:
            redis.lpush("queue:mail", *(job(10_000 + rounds * 7 + i) for i in range(7)))
        rounds += 1
        answer = client.post("/jobs/delete", fields_in(answer.text[answer.text.index("data-go-on") :]))
    left = [json.loads(raw) for raw in redis.lrange("queue:mail", 0, -1)]
    assert rounds > 3
    assert [one for one in left if one["class"] == "Rare"] == []
    assert len(left) == 2_970 + 4 * 7


def test_a_job_that_fails_again_and_comes_back_is_not_retried_again(
    client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)
    fill(redis, "retry", 1_200, failed_at=NOW)
    answer = client.sure("/jobs/retry", {"state": "retry", "all": "yes"})
    assert "data-go-on" in answer.text
    moved = redis.llen("queue:mail")
    came_back = [job(i, failed_at=NOW, retried_at=time.time() + 1) for i in range(300)]
    redis.zadd("retry", dict.fromkeys(came_back, time.time() + 60))
    answer, _ = to_the_end(client, "/jobs/retry", answer)
    assert answer.status == 303
    assert moved < redis.llen("queue:mail") == 1_200
    assert redis.zcard("retry") == 300


@pytest.mark.parametrize("verb", ["retry", "delete"])
def test_jobs_of_one_time_are_all_met(
    client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)
    jobs = {job(i, "Rare" if 1_300 <= i < 2_400 else "Mail"): NOW for i in range(3_000)}
    redis.zadd("schedule", jobs)  # type: ignore[arg-type]
    fields = {"state": "scheduled", "all": "yes", "class": "Rare"}
    answer, _ = to_the_end(client, f"/jobs/{verb}", client.sure(f"/jobs/{verb}", fields))
    assert answer.status == 303
    assert {json.loads(raw)["class"] for raw in redis.zrange("schedule", 0, -1)} == {"Mail"}
    assert redis.zcard("schedule") == 1_900


def test_a_program_goes_on_with_what_it_was_answered(
    client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)
    fill(redis, "dead", 1_700)
    told = client.api("/api/jobs/delete", {"state": "dead", "all": True}).json
    while "go_on" in told:
        told = client.api("/api/jobs/delete", told["go_on"]["fields"]).json
    assert redis.zcard("dead") == 0
    assert told["said"] == "1700 jobs deleted"


def test_the_time_of_all_that_fit_is_changed(
    app: App, client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)
    fill(redis, "schedule", 1_300, every=2)
    fields = {"state": "scheduled", "all": "yes", "class": "Rare", "at": "2100-01-01T00:00"}
    assert " among 1300 jobs in scheduled to 2100-01-01 00:00:00 UTC?" in client.post("/jobs/reschedule", fields).text
    answer, _ = to_the_end(client, "/jobs/reschedule", client.sure("/jobs/reschedule", fields))
    assert answer.status == 303
    due = Filter(since=4_000_000_000.0)
    assert sum(1 for _ in app.inspector.jobs(app.inspector.SCHEDULED, due)) == 650


def test_jobs_of_a_queue_are_moved_into_another_one_as_the_command_does(
    app: App, client: Client, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SLICE_S", 0.0)
    redis.sadd("queues", "mail")
    redis.lpush("queue:mail", *(job(i, "Rare" if i % 3 == 0 else "Mail") for i in range(2_600)))
    to = {"state": "waiting", "queue": "mail", "to": "slow"}
    chosen = keys(client, "state=waiting&queue=mail&limit=10")[:2]
    assert client.post("/jobs/move", {**to, "job": chosen}).status == 303
    assert redis.llen("queue:slow") == 2
    asked = client.post("/jobs/move", {**to, "all": "yes", "class": "Rare"})
    assert "Move all jobs of class Rare among 2598 jobs in queue mail to queue slow?" in asked.text
    answer, rounds = to_the_end(client, "/jobs/move", client.sure("/jobs/move", {**to, "all": "yes", "class": "Rare"}))
    assert (answer.status, rounds > 3) == (303, True)
    assert {one.message.job_class for one in app.inspector.jobs(app.inspector.waiting_in("mail"))} == {"Mail"}
    moved = [one.message.args[0] for one in app.inspector.first(app.inspector.waiting_in("slow"), 1_000)][2:]
    assert (len(moved), moved) == (866, sorted(moved))
    assert "866 jobs moved to queue slow" in client.get("/").text
    assert client.sure("/jobs/move", {"state": "dead", "to": "slow", "all": "yes"}).status == 400
    assert client.post("/jobs/move", {**to, "to": "mail", "job": chosen}).status == 400


def test_a_queue_limits_a_change_of_retries_and_their_list_to_its_jobs(client: Client, redis: redis_py.Redis) -> None:
    fill(redis, "retry", 3)
    redis.zadd("retry", {job(number, queue="other"): NOW + number for number in range(10, 14)})
    assert len(keys(client, "state=retry&queue=mail")) == 3
    page = client.get("/jobs?state=retry&queue=mail").text
    assert "Only jobs of queue" in page
    assert "all of the queue" in page
    assert "Only jobs of queue" not in client.get("/jobs?state=retry").text
    wanted = {"state": "retry", "queue": "mail", "all": "yes"}
    asked = client.post("/jobs/delete", wanted).text
    assert "Delete all jobs of queue mail among 7 jobs in retry? 3 fit now." in asked
    assert client.api("/api/jobs/delete", {"state": "retry", "queue": "mail", "all": True}).json["count"] == 3
    assert redis.zcard("retry") == 4


def test_without_a_selection_nothing_happens(client: Client, redis: redis_py.Redis) -> None:
    fill(redis, "dead", 3)
    answer = client.sure("/jobs/delete", {"state": "dead"})
    assert answer.status == 400
    assert "select jobs" in answer.text
    assert client.sure("/jobs/delete", {"state": "dead", "job": ["x|y|z"]}).status == 400
    assert client.sure("/jobs/delete", {"state": "waiting", "all": "yes"}).status == 400
    assert redis.zcard("dead") == 3
