"""The page of failures: what it shows, and what its actions leave."""

from __future__ import annotations

import time

import pytest
import redis as redis_py
from page_jobs import AT, failed
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.admin.places import RETRIES, waiting_in


def test_failures_are_grouped_by_class_and_error_of_both_states(client: Client, redis: redis_py.Redis) -> None:
    now = time.time()
    redis.zadd("retry", {failed(f"r{n}", at=now - 60 * n): AT + n for n in range(4)})
    redis.zadd("dead", {failed("d1", at=now - 7_200): now - 7_200, failed("d2", "Other"): AT})
    shown = client.get("/api/failures").json
    first, second = shown["failures"]
    told = (first["job_class"], first["error_class"], first["retry"], first["dead"], sum(first["by_hour"]))
    assert told == ("Mail", "Timeout", 4, 1, 5)
    assert (second["error_class"], second["retry"], second["dead"]) == ("Other", 0, 1)
    assert (shown["estimated"], shown["total"]) == (False, 6)
    assert first["oldest"] == pytest.approx(now - 7_200, abs=1)
    assert [one["dead"] for one in client.get("/api/failures?state=dead").json["failures"]] == [1, 1]
    assert client.get("/api/failures?class=mAi").json["kinds"] == 2
    assert client.get("/api/failures?class=Nosuch").json["kinds"] == 0


def test_the_counts_of_many_failures_are_estimated_and_say_so(client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("retry", {failed(f"r{n}"): AT + n for n in range(3_000)})
    shown = client.get("/api/failures").json
    assert (shown["estimated"], shown["total"], shown["failures"][0]["retry"]) == (True, 3_000, 3_000)
    assert "About: estimated from" in client.get("/failures").text


def test_all_jobs_of_a_failure_are_run_now_after_a_question(app: App, client: Client, redis: redis_py.Redis) -> None:
    redis.zadd("retry", {failed("a"): AT, failed("b"): AT + 1, failed("c", "Other"): AT + 2})
    form = {"state": "retry", "all": "yes", "class": "Mail", "error": "Timeout"}
    page = client.get("/failures?state=retry").text
    assert page.count("Run all now") == 2
    assert "Run now all jobs" in client.post("/jobs/retry", form).text
    client.sure("/jobs/retry", form)
    assert {one.jid for one in app.inspector.jobs(waiting_in("mail"))} == {"a", "b"}
    assert [one.jid for one in app.inspector.jobs(RETRIES)] == ["c"]
