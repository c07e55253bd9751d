"""go-workers and go-workers2 with pyworkers on one Redis: each runs, and promotes, what the other one pushed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis as redis_py
from programs import EXACT, GoWorkers, PyWorkers, entries, leftovers, make_due, runs
from waiting import eventually

from goworkers_py import App, EnqueueOptions

# The first test builds the Go programs, and with an empty module cache it downloads what they are made of.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HOUR = 3600.0
ARGS = ("-args", json.dumps(EXACT))
FAILED = {"error_class": "ValueError", "error_message": "failed <on purpose> é"}
namespaces = pytest.mark.parametrize("namespace", ["", "ns"], ids=["bare", "namespace"])


def digits(value: Any) -> str:
    """To compare with: 1700000000 is not 1700000000.0. The order of keys does not matter, Go sorts them."""
    return json.dumps(value, sort_keys=True)


def test_python_runs_what_go_pushes(redis: redis_py.Redis, go: GoWorkers, pyworkers: PyWorkers) -> None:
    jids = go.produce("-queue", "py", "-class", "Billing::InvoiceJob", "-count", "3", *ARGS)
    with pyworkers("py=1"):
        assert eventually(lambda: redis.llen("ran") == 3)
        assert eventually(lambda: not leftovers(redis))
    ran = runs(redis)
    # The producer of go-workers pushes to the end that is popped next.
    assert [run["jid"] for run in ran] == (jids[::-1] if go.name == "gw1" else jids)
    assert {run["class"] for run in ran} == {"Billing::InvoiceJob"}
    assert [digits(run["args"]) for run in ran] == [digits(EXACT)] * 3


def test_python_runs_at_its_time_what_go_schedules(redis: redis_py.Redis, go: GoWorkers, pyworkers: PyWorkers) -> None:
    (jid,) = go.produce("-queue", "py", "-in", "4", *ARGS)
    # Before anybody promotes it: the Go program may take seconds to end.
    ((_, due),) = redis.zrange("schedule", 0, -1, withscores=True)
    with pyworkers("py"):
        (run,) = eventually(lambda: runs(redis))
        assert eventually(lambda: not leftovers(redis))
    assert (run["jid"], digits(run["args"])) == (jid, digits(EXACT))
    assert run["at"] >= due


def test_a_failure_in_python_obeys_the_options_that_go_set(
    redis: redis_py.Redis, go: GoWorkers, pyworkers: PyWorkers
) -> None:
    def push(*flags: str) -> str:
        return go.produce("-queue", "py", "-class", "FailingJob", *ARGS, *flags)[0]

    # Go leaves `retry` out when it is false. Absent, it is for the job's own code to say: Python's says true here.
    unsaid, retried = push(), push("-retry")
    eighth, last = push("-retry", "-retry-count", "7"), push("-retry", "-retry-count", "24")
    limited = [push("-retry", "-retry-count", "2", "-retry-max", "3")] if go.name == "gw2" else []
    jobs = 4 + len(limited)
    with pyworkers("py"):
        assert eventually(lambda: redis.zcard("retry") + redis.zcard("dead") == jobs)
    retries, dead = entries(redis, "retry"), entries(redis, "dead")
    assert {job["jid"]: job["retry_count"] for job in retries} == {unsaid: 0, retried: 0, eighth: 8}
    assert {job["jid"]: job["retry_count"] for job in dead} == {last: 25, **dict.fromkeys(limited, 3)}
    for job in retries + dead:
        assert job.items() >= FAILED.items()
        assert digits(job["args"]) == digits(EXACT)
        assert "at" not in job, "Sidekiq would take it for a job still to be scheduled"


def test_go_runs_what_python_pushes(redis: redis_py.Redis, go: GoWorkers, python: App) -> None:
    first = python.enqueue("go", "GoJob", EXACT)
    later = python.enqueue_in("go", "GoJob", 0.5, EXACT)
    bulk = python.enqueue_bulk("go", "GoJob", [[i, "<é>"] for i in range(1200)])
    pushed = redis.lrange("queue:go", 0, -1)
    ((scheduled, due),) = redis.zrange("schedule", 0, -1, withscores=True)
    go.consume_to_the_end("-queue", "go", "-stop-after", "1202")
    ran = redis.lrange("ran", 0, -1)
    (promoted,) = [raw for raw in ran if raw not in pushed]
    ran.remove(promoted)
    assert ran == pushed[::-1]
    assert [json.loads(raw)["jid"] for raw in ran] == [first, *bulk]
    job = json.loads(promoted)
    assert job["jid"] == later
    assert job.pop("enqueued_at") >= due
    assert digits(job) == digits(json.loads(scheduled))
    assert leftovers(redis) == []


@namespaces
def test_python_runs_what_failed_in_go_and_was_promoted_by_go(
    redis: redis_py.Redis, redis_url: str, go: GoWorkers, python: App, pyworkers: PyWorkers, namespace: str
) -> None:
    prefix, in_namespace = f"{namespace}:" if namespace else "", ("-namespace", namespace)
    python.configure(redis=redis_url, namespace=namespace)
    dropped = python.enqueue_with_options("py", "PythonJob", EXACT, EnqueueOptions(retry=False))
    succeeds = python.enqueue_with_options("py", "PythonJob", EXACT, EnqueueOptions(retry=True))
    fails = python.enqueue_with_options("py", "FailingJob", EXACT, EnqueueOptions(retry=True))
    (gos,) = go.produce("-queue", "py", "-retry", *ARGS, *in_namespace)
    go.consume_to_the_end("-queue", "other", "-failing", "py", "-stop-after", "4", *in_namespace)
    assert {run["jid"] for run in runs(redis, "raised")} == {dropped, succeeds, fails, gos}
    failed = {job["jid"]: job for job in entries(redis, f"{prefix}goretry")}
    assert failed.keys() == {succeeds, fails, gos}
    assert {job["queue"] for job in failed.values()} == {f"{prefix}py"}, "Go leaks its namespace into what it retries"
    redis.delete("raised")
    make_due(redis, f"{prefix}goretry")
    with go.consume("-queue", "other", *in_namespace):
        assert eventually(lambda: redis.llen(f"{prefix}queue:py") == 3)
    with pyworkers("py", namespace=namespace):
        assert eventually(lambda: redis.llen("ran") == 2)
        assert eventually(lambda: leftovers(redis) == [b"%sretry" % prefix.encode()])
    ran = {run["jid"]: run for run in runs(redis)}
    assert ran.keys() == {succeeds, gos}
    assert [(run["retry_count"], digits(run["args"])) for run in ran.values()] == [(0, digits(EXACT))] * 2
    (again,) = entries(redis, f"{prefix}retry")
    assert again.items() >= {"jid": fails, "queue": "py", "retry_count": 1, **FAILED}.items()
    assert time.time() - HOUR < again["failed_at"] < again["retried_at"] <= time.time(), "no longer Go's text"
    assert digits(again["args"]) == digits(EXACT)


def test_go_promotes_what_python_put_into_schedule_and_leaves_retry_alone(
    redis: redis_py.Redis, go: GoWorkers, python: App, pyworkers: PyWorkers
) -> None:
    options = EnqueueOptions(retry=3, backtrace=2, tags=["a", "é"])
    moved, left = (python.enqueue_with_options("py", "FailingJob", EXACT, options) for _ in range(2))
    with pyworkers("py"):
        assert eventually(lambda: redis.zcard("retry") == 2)
    failed = {json.loads(raw)["jid"]: raw for raw in redis.zrange("retry", 0, -1)}
    redis.zrem("retry", failed[moved])
    redis.zadd("schedule", {failed[moved]: 1.0})
    later = python.enqueue_in("py", "PythonJob", HOUR, EXACT)
    make_due(redis, "retry", "schedule")
    with go.consume("-queue", "other"):
        assert eventually(lambda: redis.llen("queue:py") == 2)
    assert redis.zrange("retry", 0, -1) == [failed[left]]
    promoted = {job["jid"]: job for job in map(json.loads, redis.lrange("queue:py", 0, -1))}
    assert promoted.keys() == {moved, later}
    before = json.loads(failed[moved])
    assert digits(promoted[moved]) == digits(before | {"enqueued_at": promoted[moved]["enqueued_at"]})
    with pyworkers("py"):
        assert eventually(lambda: redis.llen("ran") == 1)
        assert eventually(lambda: redis.llen("raised") == 4)
        assert eventually(lambda: redis.zcard("retry") == 2)
    assert digits(runs(redis)[0]["args"]) == digits(EXACT)
    for job in entries(redis, "retry"):
        assert job.items() >= {"retry_count": 1, "tags": ["a", "é"], **FAILED}.items()
        assert job["failed_at"] == json.loads(failed[job["jid"]])["failed_at"] < job["retried_at"]


def test_each_due_entry_is_promoted_once_while_go_and_python_poll(
    redis: redis_py.Redis, go: GoWorkers, python: App, pyworkers: PyWorkers
) -> None:
    jids = python.enqueue_bulk("py", "PythonJob", [[i] for i in range(3000)], EnqueueOptions(at=time.time() + HOUR))
    with pyworkers("py", log_level="info") as daemon, go.consume("-queue", "other") as consumer:
        assert daemon.ready()
        assert consumer.says("ready")
        make_due(redis, "schedule")
        assert eventually(lambda: redis.llen("ran") >= 3000, 60)
        assert eventually(lambda: not leftovers(redis))
    assert sorted(run["jid"] for run in runs(redis)) == sorted(filter(None, jids))


def test_python_leaves_alone_what_go_has_in_progress(
    redis: redis_py.Redis, go: GoWorkers, python: App, pyworkers: PyWorkers
) -> None:
    as_before = ("-queue", "py", "-process", "w1")
    gos = python.enqueue("py", "PythonJob", EXACT)
    with go.consume(*as_before, "-sleep", "1h") as consumer:
        assert eventually(lambda: redis.llen("queue:py:w1:inprogress") == 1)
        consumer.kill()
    in_progress = redis.lrange("queue:py:w1:inprogress", 0, -1)
    ours = python.enqueue("py", "PythonJob", EXACT)
    with pyworkers("py"):
        assert eventually(lambda: redis.llen("ran") == 1)
    assert redis.lrange("queue:py:w1:inprogress", 0, -1) == in_progress
    go.consume_to_the_end(*as_before, "-stop-after", "1")
    assert [run["jid"] for run in runs(redis)] == [ours, gos]
    assert leftovers(redis) == []


def test_go_and_python_run_each_others_jobs_in_a_namespace(
    redis: redis_py.Redis, redis_url: str, go: GoWorkers, python: App, pyworkers: PyWorkers
) -> None:
    in_namespace = ("-namespace", "ns")
    python.configure(redis=redis_url, namespace="ns")
    for_go = [python.enqueue("go", "GoJob", EXACT), python.enqueue_in("go", "GoJob", 0.5, EXACT)]
    for_python = go.produce("-queue", "py", *ARGS, *in_namespace) + go.produce(
        "-queue", "py", "-in", "0.5", *ARGS, *in_namespace
    )
    go.produce("-queue", "py", "-class", "FailingJob", "-retry", *in_namespace)
    with pyworkers("py", namespace="ns"):
        assert eventually(lambda: redis.llen("ran") == 2)
        assert eventually(lambda: entries(redis, "ns:retry"))
    assert sorted(run["jid"] for run in runs(redis)) == sorted(for_python)
    redis.delete("ran", "raised")
    go.consume_to_the_end("-queue", "go", "-stop-after", "2", *in_namespace)
    assert [run["jid"] for run in runs(redis)] == for_go
    assert [key for key in redis.scan_iter() if not key.startswith(b"ns:")] == [b"ran"]
    assert leftovers(redis) == [b"ns:retry"]
