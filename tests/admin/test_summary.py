"""Counting the jobs of a set by class and error: `retries summary`, `dead summary`."""

from __future__ import annotations

import json
import time

import redis as redis_py
from apps import job
from calls import Call

from goworkers_py.admin.summary import LONGEST_TEXT, MOST_KINDS, Summary
from goworkers_py.wire.stored_job import StoredJob


def failed(job_class: str, error: str, message: str, at: float) -> bytes:
    return job(job_class, error_class=error, error_message=message, failed_at=at - 1_000, retried_at=at)


def test_failed_jobs_are_counted_by_class_and_error(redis: redis_py.Redis, redis_url: str, call: Call) -> None:
    now = time.time()
    redis.zadd(
        "retry",
        {
            failed("Send", "ValueError", "old", now - 7_200): now + 10,
            failed("Send", "ValueError", "new", now - 310): now + 20,
            failed("Send", "OSError", "no route\x1b", now - 310): now + 30,
            failed("Other", "ValueError", "", now - 310): float("inf"),
        },
    )
    lines = [line.split() for line in call("retries", "summary", "--redis", redis_url).stdout.splitlines()]
    assert lines[:2] == [
        ["count", "class", "oldest", "newest", "error"],
        ["2", "Send", "2", "h", "ago", "5", "min", "ago", "ValueError:", "new"],
    ]
    assert [line[:2] for line in lines[2:]] == [["1", "Other"], ["1", "Send"]]
    told = [json.loads(line) for line in call("retries", "summary", "--json", "--redis", redis_url).stdout.splitlines()]
    assert told[0] == {
        "class": "Send", "error_class": "ValueError", "error_message": "new", "count": 2, "oldest": now - 7_200,
        "newest": now - 310,
    }  # fmt: skip


def test_the_summary_says_when_it_was_cut_at_the_limit(redis: redis_py.Redis, redis_url: str, call: Call) -> None:
    redis.zadd("dead", {failed(f"C{n}", "ValueError", "", 1.0): n for n in range(3)})
    done = call("dead", "summary", "--limit", "2", "--redis", redis_url)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
    assert done.stderr == "pyworkers: these are the first 2; --limit 0 shows all\n"


def test_all_pages_of_a_set_are_counted(redis: redis_py.Redis, redis_url: str, call: Call) -> None:
    redis.zadd("dead", {job("J", n, error_class="E"): n // 7 for n in range(3_000)})
    redis.zadd("dead", {b"{no job": 1, b"12": 2})
    told = [json.loads(line) for line in call("dead", "summary", "--json", "--redis", redis_url).stdout.splitlines()]
    assert [(one["class"], one["count"]) for one in told] == [("J", 3_000), ("(unreadable)", 2)]
    assert told[1]["oldest"] == 1.0


def test_jobs_with_fields_of_a_wrong_type_are_counted() -> None:
    summary = Summary()
    told = ['"error_class":12,"failed_at":"soon"', '"error_class":[],"failed_at":1e400', '"retried_at":true']
    jobs = [f'{{"class":null,{fields}}}'.encode() for fields in told]
    summary.add(StoredJob(raw, at=at) for raw in jobs for at in (5.0, float("inf"), float("nan")))
    [kind] = summary.kinds()
    assert (kind.job_class, kind.error_class, kind.count, kind.oldest, kind.newest) == ("(none)", "", 9, 5.0, 5.0)
    json.loads(kind.as_json)


def test_the_summary_stays_bounded_with_any_number_of_classes_and_long_texts() -> None:
    summary = Summary()
    names = [f"{n}{'x' * 10_000}" for n in range(MOST_KINDS + 10)]
    summary.add(StoredJob(job(name, error_message=name)) for name in names)
    kinds = summary.kinds()
    assert len(kinds) == MOST_KINDS + 1
    assert [(kind.job_class, kind.count) for kind in kinds[:1]] == [("(others)", 10)]
    assert max(len(kind.job_class) + len(kind.error_message) for kind in kinds) <= 2 * LONGEST_TEXT
