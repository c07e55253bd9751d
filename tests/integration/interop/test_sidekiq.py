"""Sidekiq and pyworkers on one Redis: each runs, promotes, reads and edits what the other one pushed."""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from collections.abc import Iterator
from datetime import date, datetime, timezone
from typing import Any

import pytest
import redis as redis_py
from programs import (
    EXACT,
    SIDEKIQ_BEGINS,
    PyWorkers,
    Ruby,
    compact,
    entries,
    leftovers,
    make_due,
    runs,
    seconds,
    sidekiq_version,
    skip_before_sidekiq,
)
from waiting import eventually

from goworkers_py import App, EnqueueOptions
from goworkers_py.wire.failure import unpack_backtrace

pytestmark = pytest.mark.interop

MILLISECOND, SECOND, HOUR = 0.001, 1.0, 3600.0  # Sidekiq 8 cuts its times to milliseconds
FAILED = {"error_class": "ValueError", "error_message": "failed <on purpose> é"}
FAILED_IN_RUBY = {"error_class": "ArgumentError", "error_message": "failed <on purpose> é"}


def test_python_runs_what_ruby_pushes_in_order(redis: redis_py.Redis, ruby: Ruby, pyworkers: PyWorkers) -> None:
    one = ruby.produce("push", "--queue", "py", "--class", "RubyJob", "--args", compact(EXACT))
    two = ruby.produce("perform", "--queue", "py", "--class", "Billing::InvoiceJob", "--args", compact(EXACT))
    many = ruby.produce("bulk", "--queue", "py", "--class", "RubyJob", "--count", "1200")
    with pyworkers("py=1"):
        assert eventually(lambda: len(runs(redis)) == 1202)
        assert eventually(lambda: not leftovers(redis))
    ran = runs(redis)
    assert [run["jid"] for run in ran] == one + two + many
    assert [run["class"] for run in ran[:3]] == ["RubyJob", "Billing::InvoiceJob", "RubyJob"]
    assert [compact(run["args"]) for run in ran[:2]] == [compact(EXACT)] * 2
    assert [run["args"] for run in ran[2:]] == [[i] for i in range(1200)]


def test_python_runs_an_activejob_as_the_class_it_wraps(
    redis: redis_py.Redis, ruby: Ruby, pyworkers: PyWorkers
) -> None:
    (jid,) = ruby.produce("activejob", "--queue", "py", "--class", "Billing::InvoiceJob", "--args", compact(EXACT))
    with pyworkers("py"):
        (run,) = eventually(lambda: runs(redis))
    assert (run["class"], run["jid"]) == ("Billing::InvoiceJob", jid)
    (serialized,) = run["args"]
    assert serialized["job_class"] == "Billing::InvoiceJob"
    assert compact(serialized["arguments"]) == compact(EXACT)


def test_python_runs_at_its_time_what_ruby_schedules(redis: redis_py.Redis, ruby: Ruby, pyworkers: PyWorkers) -> None:
    (jid,) = ruby.produce("in", "--queue", "py", "--in", "4", "--args", compact(EXACT))
    # Before anybody promotes it: Ruby may take seconds to end.
    ((raw, due),) = redis.zrange("schedule", 0, -1, withscores=True)
    with pyworkers("py"):
        (run,) = eventually(lambda: runs(redis))
        assert eventually(lambda: not leftovers(redis))
    assert (run["jid"], compact(run["args"])) == (jid, compact(EXACT))
    assert run["at"] >= due
    promoted, scheduled = json.loads(run["raw"]), json.loads(raw)
    assert due <= promoted.pop("enqueued_at") <= run["at"]
    assert promoted == scheduled


def test_python_runs_what_ruby_pushes_with_keyword_arguments_and_the_json_of_types(
    redis: redis_py.Redis, ruby: Ruby, pyworkers: PyWorkers
) -> None:
    order = uuid.UUID(int=7)
    args = [str(order), [{"sku": "é", "price": "9.90"}]]
    # As `Time#iso8601` and, in Rails, `as_json` write it.
    first = {"day": "2026-01-31", "at": "2026-01-31T09:30:00+01:00"}
    second = {"day": "2026-01-31", "at": "2026-01-31T08:30:00.000Z", "copies": 2}
    for how, kwargs in (("perform", first), ("push", second), ("push", first | {"day": "soon"})):
        ruby.produce(how, "--queue", "py", "--class", "TypedJob", "--args", compact(args), kwargs=kwargs)
    with pyworkers("py=1"):
        assert eventually(lambda: len(runs(redis)) == 2)
        (unfit,) = eventually(lambda: entries(redis, "retry"))
    moment = datetime(2026, 1, 31, 8, 30, tzinfo=timezone.utc)
    given = f"(UUID('{order}'), [Line(sku='é', price=Decimal('9.90'))], {date(2026, 1, 31)!r}, {moment!r}"
    assert [run["args"] for run in runs(redis)] == [[f"{given}, {copies})"] for copies in (1, 2)]
    assert unfit["error_message"] == "TypedJob: day: is 'soon', not a date, such as '2026-01-31'"
    assert unfit["kwargs"] == first | {"day": "soon"}


@pytest.mark.parametrize(
    ("options", "runs_in_all", "buried"),
    [
        ({"retry": False}, 1, False),
        ({"retry": 0}, 1, True),
        ({"retry": 2}, 3, True),
        ({"retry": 1, "dead": False}, 2, False),
    ],
)
def test_a_job_that_fails_in_python_is_retried_as_often_as_ruby_said(
    redis: redis_py.Redis,
    ruby: Ruby,
    pyworkers: PyWorkers,
    options: dict[str, Any],
    runs_in_all: int,
    buried: bool,
) -> None:
    ruby.produce("perform", "--queue", "py", "--class", "FailingJob", **options)

    def ended() -> bool:
        make_due(redis, "retry")
        return redis.llen("raised") >= runs_in_all and leftovers(redis) == [b"dead"] * buried

    with pyworkers("py"):
        assert eventually(ended)
    assert [run["retry_count"] for run in runs(redis, "raised")] == [None, *range(runs_in_all - 1)]


def test_a_failure_in_python_obeys_the_options_that_ruby_set(
    redis: redis_py.Redis, ruby: Ruby, pyworkers: PyWorkers
) -> None:
    options = {"retry": 3, "tags": ["a", "é"], "backtrace": 2, "retry_queue": "low"}
    (jid,) = ruby.produce("push", "--queue", "py", "--class", "FailingJob", "--args", compact(EXACT), **options)
    pushed = json.loads(redis.lindex("queue:py", 0))
    with pyworkers("py", "low"):
        (entry,) = eventually(lambda: entries(redis, "retry"))
        make_due(redis, "retry")
        assert eventually(lambda: redis.llen("raised") == 2)
    assert entry.items() >= (pushed | FAILED | {"queue": "low", "retry_count": 0}).items()
    assert [frame.rpartition("in ")[2] for frame in unpack_backtrace(entry["error_backtrace"])] == ["`deeper'"] * 2
    assert [(run["jid"], run["queue"], run["retry_count"]) for run in runs(redis, "raised")] == [
        (jid, "py", None),
        (jid, "low", 0),
    ]


def test_ruby_runs_what_python_pushes(redis: redis_py.Redis, ruby: Ruby, python: App) -> None:
    first = python.enqueue("rb", "RubyJob", EXACT)
    tagged = python.enqueue_with_options("rb", "Billing::InvoiceJob", EXACT, EnqueueOptions(tags=["a", "é"]))
    bulk = python.enqueue_bulk("rb", "RubyJob", [[i, "<é>"] for i in range(1200)])
    pushed = redis.lrange("queue:rb", 0, -1)
    with ruby.sidekiq("rb"):
        assert eventually(lambda: redis.llen("ran") == 1202)
    # Ruby recorded what its own JSON library made of our text: the same bytes, so its API can find and move our jobs.
    assert redis.lrange("ran", 0, -1) == pushed[::-1]
    assert [run["jid"] for run in runs(redis)] == [first, tagged, *bulk]
    assert leftovers(redis) == []


def test_ruby_runs_at_its_time_what_python_schedules(redis: redis_py.Redis, ruby: Ruby, python: App) -> None:
    one = python.enqueue_in("rb", "RubyJob", 0.5 * SECOND, EXACT)
    other = python.enqueue_at("rb", "RubyJob", time.time() + SECOND, EXACT)
    python.enqueue_in("rb", "RubyJob", HOUR, [])
    scheduled = redis.zrange("schedule", 0, 1, withscores=True)
    with ruby.sidekiq("rb"):
        assert eventually(lambda: redis.llen("ran") == 2)
    ran = runs(redis)
    assert [run["jid"] for run in ran] == [one, other]
    for run, (raw, due) in zip(ran, scheduled, strict=True):
        assert seconds(run.pop("enqueued_at")) >= due - MILLISECOND
        assert run == json.loads(raw)
    assert redis.zcard("schedule") == 1


def test_a_failure_in_ruby_obeys_the_options_that_python_set(redis: redis_py.Redis, ruby: Ruby, python: App) -> None:
    def push(**options: Any) -> str | None:
        return python.enqueue_with_options("rb", "FailingJob", EXACT, EnqueueOptions(**options))

    push(retry=False)
    push(retry=0, dead=False)
    dead = push(retry=0)
    retried = push(retry=1, retry_queue="low", tags=["a", "é"], backtrace=2)
    push(retry=True)
    with ruby.sidekiq("rb"):
        assert eventually(lambda: redis.llen("raised") == 5)
        assert eventually(lambda: redis.zcard("retry") == 2)
    (buried,) = entries(redis, "dead")
    (entry,) = [entry for entry in entries(redis, "retry") if entry["jid"] == retried]
    assert buried.items() >= {"jid": dead, "retry_count": 0, **FAILED_IN_RUBY}.items()
    assert entry.items() >= {"queue": "low", "tags": ["a", "é"], "retry_count": 0, **FAILED_IN_RUBY}.items()
    assert len(unpack_backtrace(entry["error_backtrace"])) == 2


def test_python_promotes_what_failed_in_ruby_and_either_runs_it_again(
    redis: redis_py.Redis, ruby: Ruby, pyworkers: PyWorkers
) -> None:
    (rubys,) = ruby.produce("perform", "--queue", "rb", "--class", "FailingJob", "--args", compact(EXACT), backtrace=2)
    (ours,) = ruby.produce("perform", "--queue", "rb", "--class", "FailingJob", retry_queue="py", retry=1)
    with ruby.sidekiq("rb"):
        assert eventually(lambda: redis.zcard("retry") == 2)
    failed = {entry["jid"]: entry for entry in entries(redis, "retry")}
    make_due(redis, "retry")
    with pyworkers("py"):
        assert eventually(lambda: redis.llen("queue:rb") == 1)
        assert eventually(lambda: redis.zcard("dead") == 1)
    # To Ruby's queue goes Ruby's failure, as Ruby told it.
    promoted = json.loads(redis.lindex("queue:rb", 0))
    assert seconds(promoted.pop("enqueued_at")) > seconds(failed[rubys].pop("enqueued_at"))
    assert promoted == failed[rubys]
    # In Python's queue it failed once more, which was the last time.
    (buried,) = entries(redis, "dead")
    assert buried.items() >= {"jid": ours, "retry_count": 1, "failed_at": failed[ours]["failed_at"], **FAILED}.items()
    assert seconds(buried["retried_at"]) > seconds(buried["failed_at"])
    with ruby.sidekiq("rb"):
        (again,) = eventually(lambda: entries(redis, "retry"))
    assert again.items() >= {"jid": rubys, "retry_count": 1, "failed_at": promoted["failed_at"]}.items()
    assert compact(again["args"]) == compact(EXACT)


def test_ruby_promotes_what_python_put_into_retry_and_schedule(
    redis: redis_py.Redis, ruby: Ruby, python: App, pyworkers: PyWorkers
) -> None:
    options = EnqueueOptions(retry=3, backtrace=2, tags=["a", "é"])
    python.enqueue_with_options("py", "FailingJob", EXACT, options)
    python.enqueue_in("py", "PythonJob", HOUR, EXACT)
    with pyworkers("py"):
        assert eventually(lambda: redis.zcard("retry") == 1)
    (failed,), (scheduled,) = entries(redis, "retry"), entries(redis, "schedule")
    make_due(redis, "retry", "schedule")
    with ruby.sidekiq("other"):
        assert eventually(lambda: redis.llen("queue:py") == 2)
    promoted = {job["jid"]: job for job in map(json.loads, redis.lrange("queue:py", 0, -1))}
    for job in (failed, scheduled):
        assert promoted[job["jid"]] == job | {"enqueued_at": promoted[job["jid"]]["enqueued_at"]}
    assert failed.items() >= {"retry_count": 0, **FAILED}.items()
    with pyworkers("py"):
        assert eventually(lambda: redis.llen("ran") == 1)
        (again,) = eventually(lambda: entries(redis, "retry"))
    assert compact(runs(redis)[0]["args"]) == compact(EXACT)
    assert again.items() >= {"retry_count": 1, "failed_at": failed["failed_at"], **FAILED}.items()
    assert again["retried_at"] > again["failed_at"]
    assert compact(again["args"]) == compact(EXACT)


def test_retry_for_counts_from_the_first_failure_in_ruby(
    redis: redis_py.Redis, ruby: Ruby, pyworkers: PyWorkers
) -> None:
    """Sidekiq 8 writes `failed_at` in milliseconds: read as seconds, the time would never be over."""
    for word in ("goes on", "is over"):
        args = compact([word])
        ruby.produce("push", "--queue", "rb", "--class", "FailingJob", "--args", args, retry_queue="py", retry_for=HOUR)
    with ruby.sidekiq("rb"):
        assert eventually(lambda: redis.zcard("retry") == 2)
    for job in entries(redis, "retry"):
        if job["args"] == ["is over"]:
            hours = int(2 * HOUR) * (1000 if isinstance(job["failed_at"], int) else 1)
            redis.lpush("queue:py", compact(job | {"failed_at": job["failed_at"] - hours}))
        else:
            redis.lpush("queue:py", compact(job))
    redis.delete("retry")
    with pyworkers("py"):
        (buried,) = eventually(lambda: entries(redis, "dead"))
        (retried,) = eventually(lambda: entries(redis, "retry"))
    assert (buried["args"], retried["args"]) == (["is over"], ["goes on"])


def test_the_inspector_reads_the_times_and_the_process_of_ruby(redis: redis_py.Redis, ruby: Ruby, python: App) -> None:
    began = time.time() - SECOND
    ruby.produce("in", "--queue", "rb", "--in", str(HOUR))
    for retry in (0, 1):
        ruby.produce("push", "--queue", "rb", "--class", "FailingJob", retry=retry)
    with ruby.sidekiq("rb"):
        assert eventually(lambda: redis.zcard("retry") == redis.zcard("dead") == 1)
        (process,) = eventually(python.inspector.processes)
    assert process.version == (".".join(map(str, sidekiq_version())) if sidekiq_version() >= (7,) else "")
    assert (process.queues, process.concurrency, process.quiet, process.embedded) == (["rb"], 1, False, False)
    assert began <= process.started_at <= process.beat <= time.time()
    ruby.produce("push", "--queue", "rb")
    inspector = python.inspector
    for place in (inspector.SCHEDULED, inspector.RETRIES, inspector.DEAD, inspector.waiting_in("rb")):
        (job,) = inspector.jobs(place)
        assert job.message is not None
        failed = place in (inspector.RETRIES, inspector.DEAD)
        times = [job.message.created_at, job.message.failed_at if failed else began]
        assert all(began <= at <= time.time() for at in times if at is not None)
        assert None not in times
    (queue,) = inspector.queues()
    assert 0 <= queue.latency_s <= time.time() - began


def test_each_due_entry_is_promoted_once_while_ruby_and_python_poll(
    redis: redis_py.Redis, ruby: Ruby, python: App, pyworkers: PyWorkers
) -> None:
    jids = python.enqueue_bulk("py", "PythonJob", [[i] for i in range(3000)], EnqueueOptions(at=time.time() + HOUR))
    with ruby.sidekiq("other") as sidekiq, pyworkers("py", log_level="info") as daemon:
        assert sidekiq.says(SIDEKIQ_BEGINS)
        assert daemon.ready()
        make_due(redis, "schedule")
        assert eventually(lambda: redis.llen("ran") >= 3000, 60)
        assert eventually(lambda: not leftovers(redis))
    assert sorted(run["jid"] for run in runs(redis)) == sorted(filter(None, jids))


# --- Sidekiq's API, as its Web page uses it


class Written:
    """Sidekiq's API reads what Python left in every place that it looks at."""

    def __init__(self, redis: redis_py.Redis, python: App, pyworkers: PyWorkers) -> None:
        self._redis = redis
        options = EnqueueOptions(retry=3, backtrace=2, tags=["a", "é"])
        to_die = EnqueueOptions(retry=0, backtrace=2, tags=["a", "é"])
        for _ in range(3):
            python.enqueue_with_options("py", "FailingJob", EXACT, options)
            python.enqueue_with_options("py", "FailingJob", EXACT, to_die)
            python.enqueue_with_options("py", "FailingJob", EXACT, EnqueueOptions(at=time.time() + HOUR))
        with pyworkers("py"):
            assert eventually(lambda: redis.zcard("retry") == 3 and redis.zcard("dead") == 3)
        # None is retried by itself, however long Ruby takes.
        redis.zadd("retry", {raw: due + HOUR for raw, due in redis.zrange("retry", 0, -1, withscores=True)})
        for _ in range(3):
            python.enqueue("py", "Billing::InvoiceJob", EXACT)

    def raws(self, place: str) -> list[bytes]:
        """In the order in which the API lists them."""
        if place.startswith("queue:"):
            return self._redis.lrange(place, 0, -1)
        return self._redis.zrevrange(place, 0, -1)

    def jids(self, place: str) -> list[str]:
        return [json.loads(raw)["jid"] for raw in self.raws(place)]


@pytest.fixture
def written(redis: redis_py.Redis, ruby: Ruby, python: App, pyworkers: PyWorkers) -> Iterator[Written]:
    return Written(redis, python, pyworkers)


def test_sidekiqs_api_reads_every_entry_that_python_wrote(redis: redis_py.Redis, ruby: Ruby, written: Written) -> None:
    for place in ("queue:py", "schedule", "retry", "dead"):
        listed, raws = ruby.api("list", place), written.raws(place)
        assert [entry["item"] for entry in listed] == list(map(json.loads, raws))
        for entry, raw in zip(listed, raws, strict=True):
            job = json.loads(raw)
            assert compact(entry["args"]) == compact(entry["display_args"]) == compact(EXACT)
            assert entry["class"] == entry["display_class"] == job["class"]
            times = [name for name in ("created_at", "enqueued_at", "failed_at") if name in job]
            assert [entry[name] for name in times] == [job[name] for name in times]
            assert {type(job[name]) for name in times} == {float}, "to Sidekiq 8 a time without a fraction is in ms"
            assert 0 <= entry["latency"] < HOUR
            assert entry["tags"] == job.get("tags", [])
            if place in ("retry", "dead"):
                assert entry.items() >= {"queue": "py", "retry_count": 0, **FAILED}.items()
                assert entry["error_backtrace"] == unpack_backtrace(job["error_backtrace"])
                assert ["`deeper'" in line for line in entry["error_backtrace"]] == [True, True]
            if place != "queue:py":
                assert entry["score"] == entry["at"] == redis.zscore(place, raw)


def test_sidekiq_8_reads_the_milliseconds_that_python_writes_if_told_to(
    redis: redis_py.Redis, ruby: Ruby, python: App, pyworkers: PyWorkers
) -> None:
    skip_before_sidekiq(8, "reads seconds only")
    python.use(dataclasses.replace(python.config, timestamps="ms"))
    python.enqueue_in("py", "PythonJob", HOUR, [])
    for retry in (0, 3):
        python.enqueue_with_options("py", "FailingJob", [], EnqueueOptions(retry=retry))
    with pyworkers("py", timestamps="ms"):
        assert eventually(lambda: redis.zcard("retry") == redis.zcard("dead") == 1)
    python.enqueue("py", "PythonJob", [])
    for place in ("queue:py", "schedule", "retry", "dead"):
        (entry,) = ruby.api("list", place)
        written = {
            name: entry["item"][name] for name in ("created_at", "enqueued_at", "failed_at") if name in entry["item"]
        }
        assert {type(at) for at in written.values()} == {int}
        assert {name: entry[name] for name in written} == {name: at / 1000 for name, at in written.items()}
        assert 0 <= time.time() - entry["created_at"] < HOUR
        assert 0 <= entry["latency"] < HOUR


def test_sidekiqs_api_reads_and_stops_a_process_of_python(
    redis: redis_py.Redis, ruby: Ruby, python: App, pyworkers: PyWorkers
) -> None:
    began = int(time.time())
    jid = python.enqueue("py", "WaitingJob", EXACT)
    with pyworkers("py=1", "more=2", tag="shop", log_level="info") as daemon:
        assert eventually(lambda: redis.keys("*:work"))
        (process,) = ruby.api("processes")
        told = {"pid": daemon.process.pid, "tag": "shop", "labels": ["python"], "concurrency": 3, "busy": 1}
        assert process.items() >= (told | {"queues": ["py", "more"], "quiet": "false"}).items()
        # A beat is in whole seconds, for go-workers2.
        assert all(began <= process[name] <= time.time() for name in ("started_at", "beat"))
        assert process["rss"] > 1_000
        (work,) = ruby.api("work")
        assert (work["process"], work["thread"], work["queue"]) == (process["identity"], "worker:py:1", "py")
        assert (work["payload"]["jid"], compact(work["payload"]["args"])) == (jid, compact(EXACT))
        assert began <= work["run_at"] <= time.time()
        (stats,) = ruby.api("stats")
        assert (stats["processes_size"], stats["workers_size"]) == (1, 1)
        ruby.api("signal", process["identity"], "quiet")
        daemon.says("quiet: no new jobs are fetched")
        assert eventually(lambda: ruby.api("processes")[0]["quiet"] == "true")
        ruby.api("signal", process["identity"], "stop")
        daemon.says("stopping: running jobs have")
        redis.set("open", 1)
        assert daemon.wait() == 0
    assert ruby.api("processes") == ruby.api("work") == []


def test_sidekiqs_api_finds_and_deletes_what_python_wrote(ruby: Ruby, written: Written) -> None:
    for place in ("queue:py", "schedule", "retry", "dead"):
        first, middle, last = written.jids(place)
        (found,) = ruby.api("find", place, middle)
        assert (found["result"]["jid"], compact(found["result"]["args"])) == (middle, compact(EXACT))
        ruby.api("delete", place, middle)
        assert written.jids(place) == [first, last]


def test_sidekiqs_api_reschedules_what_python_wrote(redis: redis_py.Redis, ruby: Ruby, written: Written) -> None:
    at = round(time.time() + 2 * HOUR, 3)
    for place in ("schedule", "retry"):
        raws = written.raws(place)
        ruby.api("reschedule", place, written.jids(place)[1], repr(at))
        # It increments the score of what its own JSON library writes: other bytes would become a second job, due now.
        assert sorted(written.raws(place)) == sorted(raws)
        assert redis.zscore(place, raws[1]) == pytest.approx(at)


def test_sidekiqs_api_moves_what_python_wrote_and_python_runs_it(
    redis: redis_py.Redis, ruby: Ruby, pyworkers: PyWorkers, written: Written
) -> None:
    scheduled, to_retry, to_revive = (written.jids(place)[1] for place in ("schedule", "retry", "dead"))
    killed = written.raws("retry")[0]
    ruby.api("add", "schedule", scheduled)
    ruby.api("retry", "retry", to_retry)
    ruby.api("retry", "dead", to_revive)
    ruby.api("kill", "retry", json.loads(killed)["jid"])
    assert written.raws("dead")[0] == killed
    redis.delete("raised")
    with pyworkers("py=1"):
        assert eventually(lambda: redis.llen("raised") == 3)
        assert eventually(lambda: redis.zcard("retry") == 3)
        assert eventually(lambda: redis.zcard("dead") == 4)
    # Sidekiq takes one off the count of what it retries by hand.
    again = [(run["jid"], run["retry_count"]) for run in runs(redis, "raised")]
    assert again == [(scheduled, None), (to_retry, -1), (to_revive, -1)]
    assert [entry["retry_count"] for entry in entries(redis, "retry")] == [0, 0, 0]
    assert {entry["retry_count"] for entry in entries(redis, "dead")} == {0}


def test_sidekiqs_statistics_count_what_python_ran(redis: redis_py.Redis, ruby: Ruby, written: Written) -> None:
    (stats,) = ruby.api("stats")
    counted = {"processed": 6, "failed": 6, "processed_today": 6, "failed_today": 6}
    waiting = {"scheduled_size": 3, "retry_size": 3, "dead_size": 3, "enqueued": 3, "queues": {"py": 3}}
    assert stats.items() >= (counted | waiting).items()
    (queue,) = ruby.api("queues")
    assert (queue["name"], queue["size"]) == ("py", 3)
    assert 0 <= queue["latency"] < HOUR
