"""The page of failures: what it shows, and what its actions leave."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

import pytest
import redis as redis_py
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.admin.places import RETRIES, waiting_in

AT = 2_000_000_000.25
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}"


def job(jid: str = "j1", job_class: str = "Mail", **fields: Any) -> str:
    told = {"class": job_class, "args": [1, {"to": "ada"}], "jid": jid, "queue": "mail", "retry": 5, **fields}
    return json.dumps(told)


def failed(jid: str = "j1", error: str = "Timeout", at: float = 1_700_000_000.0, **fields: Any) -> str:
    told = {"error_class": error, "error_message": "no answer", "failed_at": at, "retry_count": 2}
    return job(jid, **told, **fields)


def where(jid: str, **query: str) -> str:
    return "/job?" + urlencode({"jid": jid, **query}, errors="surrogatepass")


def in_retry(redis: redis_py.Redis, raw: str, at: float = AT) -> dict[str, str]:
    redis.zadd("retry", {raw: at})
    jid = json.loads(raw)["jid"]
    return {"jid": jid, "state": "retry", "key": f"{at!r}|{jid}"}


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
