"""Reading and changing the retries, scheduled and dead jobs, on a real server, while other programs change them."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator

import pytest
import redis as redis_py
from apps import job, own_app

from goworkers_py.admin.filter import Filter, Wanted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.jobs import Steps
from goworkers_py.admin.places import DEAD, RETRIES, SCHEDULED, waiting_in
from goworkers_py.brokers.contracts.admin import PAGE, Changed, Place
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.wire import enclosure
from goworkers_py.wire.stored_job import StoredJob


def numbered(count: int, score: float | None = None) -> dict[str | bytes, float]:
    return {job("J", n, jid=f"jid-{n:06}"): n if score is None else score for n in range(count)}


def seen(pages: Iterator[list[StoredJob]]) -> list[bytes]:
    return [job.payload for page in pages for job in page]


def told(steps: Steps) -> Changed:
    total = Changed()
    for _, changed in steps:
        total.add(changed)
    return total


# --- reading


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("score", [None, 7.0], ids=["own times", "one time"])
def test_all_entries_are_read_in_pages_and_in_order(
    inspector: Inspector, redis: redis_py.Redis, newest_first: bool, score: float | None
) -> None:
    redis.zadd("retry", numbered(2 * PAGE + 10, score))
    expected = redis.zrange("retry", 0, -1, desc=newest_first)
    pages = list(inspector.pages(RETRIES, newest_first))
    assert [len(page) for page in pages] == [PAGE, PAGE, 10]
    assert [entry.payload for page in pages for entry in page] == expected
    assert pages[0][0].at == redis.zscore("retry", expected[0])
    assert inspector.count(RETRIES) == 2 * PAGE + 10


def test_first_returns_the_jobs_that_are_due_first(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.zadd("schedule", numbered(5))
    assert [entry.at for entry in inspector.first(SCHEDULED, 2)] == [0, 1]
    assert inspector.first(SCHEDULED, 0) == []
    assert inspector.first(DEAD, 2) == []


@pytest.mark.parametrize("newest_first", [False, True])
def test_no_entry_is_missed_when_others_are_added_and_removed_during_the_reading(
    inspector: Inspector, redis: redis_py.Redis, newest_first: bool
) -> None:
    redis.zadd("retry", numbered(3 * PAGE))
    before = redis.zrange("retry", 0, -1)
    pages = inspector.pages(RETRIES, newest_first)
    found = [entry.payload for entry in next(pages)]
    gone = set(before[: PAGE // 2] + before[-PAGE // 2 :])
    redis.zrem("retry", *gone)
    redis.zadd("retry", {b"early": -1, b"late": 10_000_000})
    found += seen(pages)
    assert set(before) - gone <= set(found)


def test_reading_ends_when_the_set_is_deleted_meanwhile(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.zadd("retry", numbered(2 * PAGE))
    pages = inspector.pages(RETRIES)
    next(pages)
    redis.delete("retry")
    assert list(pages) == []


def test_all_entries_of_the_same_time_are_deleted(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.zadd("retry", numbered(2 * PAGE + 5, 7.0))
    assert told(inspector.delete(RETRIES, Filter())) == Changed(2 * PAGE + 5)
    assert redis.zcard("retry") == 0


def test_find_looks_in_every_place(inspector: Inspector, redis: redis_py.Redis) -> None:
    wanted = {number: job("J", number, jid="wanted") for number in range(5)}
    for key, number in (("schedule", 0), ("retry", 3), ("dead", 4)):
        redis.zadd(key, {wanted[number]: 4e9, job(jid="other"): 4e9})
    redis.sadd("queues", "q", "empty")
    redis.lpush("queue:q", job(jid="other"), wanted[1])
    redis.hset("pyworkers:owners", "host:1:x", json.dumps({"queues": {"q": 1}, "origin": {}}))
    redis.lpush("queue:q:host:1:x:inprogress", job(jid="other"), wanted[2])
    assert [(place, found.payload) for place, found in inspector.find("wanted")] == [
        (SCHEDULED, wanted[0]), (waiting_in("q"), wanted[1]), (Place(JobState.IN_PROGRESS, "q"), wanted[2]),
        (RETRIES, wanted[3]), (DEAD, wanted[4]),
    ]  # fmt: skip
    assert list(inspector.find("nobody")) == []


# --- filters

FAILED = job("Mail", "ada", jid="j-1", error_class="ValueError", error_message="no such user")


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (Filter(), True),
        (Filter(job_class="Mail"), True),
        (Filter(job_class="Mai"), False),
        (Filter(jids=["j-1"]), True),
        (Filter(jids=["j-2", "j-1"]), True),
        (Filter(jids=["j"]), False),
        (Filter(jids=["ada"]), False),
        (Filter(error="ValueE"), True),
        (Filter(error="such user"), True),
        (Filter(error="ada"), False),
        (Filter(match='"ada"'), True),
        (Filter(match="bob"), False),
        (Filter(job_class="Mail", error="bob"), False),
        (Filter(job_class="Mail", error="user", match="ada", jids=["j-1"]), True),
    ],
    ids=str,
)
def test_a_job_must_fit_every_field_of_a_filter(wanted: Filter, fits: bool) -> None:
    assert wanted.fits(StoredJob(FAILED)) is fits


def test_an_active_job_is_found_by_its_class_and_by_the_wrappers() -> None:
    entry = StoredJob(job("Sidekiq::ActiveJob::Wrapper", wrapped="ReportJob"))
    assert Filter(job_class="ReportJob").fits(entry)
    assert Filter(job_class="Sidekiq::ActiveJob::Wrapper").fits(entry)


def test_a_jid_is_found_although_json_wrote_it_escaped() -> None:
    assert Filter(jids=["jé/1"]).fits(StoredJob(rb'{"class":"J","jid":"j\u00e9\/1"}'))


def test_an_unreadable_payload_is_found_by_its_bytes_only() -> None:
    entry = StoredJob(b"{\xff no job")
    assert Filter(match="no job").fits(entry)
    assert Filter(match="\udcff").fits(entry)  # how Python reads a byte of the command line that is not UTF-8
    assert Filter(match=r"\xff no").fits(entry)  # as lists show it
    assert not Filter(match="xff").fits(entry)  # only a `match` with \x is compared with what lists show
    assert not Filter(job_class="J").fits(entry)
    assert not Filter(jids=["no"]).fits(entry)


def test_the_json_of_a_job_is_one_line_with_its_numbers_unchanged() -> None:
    raw = b'{"class":"J", "args":[1.0e+16,12345678901234567890.10,"\\ud800"],\n"x":1}'
    line = StoredJob(raw, at=1.5).as_json
    assert "\n" not in line
    assert '"args":[1.0e+16,12345678901234567890.10,"\\ud800"]' in line
    assert json.loads(line)["at"] == 1.5
    assert json.loads(StoredJob(b"\xff").as_json) == {
        "jid": StoredJob(b"\xff").jid,
        "unreadable": "\N{REPLACEMENT CHARACTER}",
    }


def test_the_json_of_a_job_holds_no_control_characters_for_a_terminal() -> None:
    tricks = {"class": "a\x7f\x9b2J\u2028b\u202e\x1b", "args": ["größer"]}
    line = StoredJob(json.dumps(tricks, ensure_ascii=False).encode()).as_json
    assert line.isprintable()
    assert json.loads(line)["job"] == tricks
    assert "größer" in line


# --- changing


@pytest.mark.parametrize("namespace", ["", "ns"])
def test_a_job_is_retried_by_sidekiqs_rules(redis_url: str, redis: redis_py.Redis, namespace: str) -> None:
    prefix = f"{namespace}:" if namespace else ""
    raw = (
        b'{"class":"J","args":[1.0e+16],"queue":"mail","at":5.5,"retry_count":3,"error_class":"E",'
        b'"error_message":"m","failed_at":1.5,"odd":[]}'
    )
    redis.zadd(f"{prefix}dead", {raw: 9})
    before = time.time()
    with own_app(redis_url, namespace=namespace) as app:
        assert told(app.inspector.retry(DEAD, Filter())) == Changed(1)
    [pushed] = redis.lrange(f"{prefix}queue:mail", 0, -1)
    fields = json.loads(pushed)
    assert before <= fields.pop("enqueued_at") <= time.time()
    assert len(fields.pop("jid")) == 24
    assert fields == {**{n: v for n, v in json.loads(raw).items() if n != "at"}, "retry_count": 2}
    assert b"1.0e+16" in pushed
    assert redis.smembers(f"{prefix}queues") == {b"mail"}
    assert not redis.exists(f"{prefix}dead")


def test_a_scheduled_job_gets_no_retry_count_and_its_time_in_the_configured_unit(
    redis_url: str, redis: redis_py.Redis
) -> None:
    redis.zadd("schedule", {job("J", jid="a"): 4e9})
    with own_app(redis_url, timestamps="ms") as app:
        assert told(app.inspector.retry(SCHEDULED, Filter())).done == 1
    fields = json.loads(redis.lindex("queue:q", 0))
    assert "retry_count" not in fields
    assert isinstance(fields["enqueued_at"], int)


def test_retried_jobs_go_behind_the_waiting_ones(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.lpush("queue:q", b"waits")
    redis.zadd("retry", {job("J", 1): 1, job("J", 2): 2})
    told(inspector.retry(RETRIES, Filter()))
    assert [json.loads(raw)["args"] for raw in redis.lrange("queue:q", 0, 1)] == [[2], [1]]
    assert redis.lindex("queue:q", -1) == b"waits"


def test_a_retry_takes_a_queue_with_go_workers_prefix_and_a_job_without_a_queue(
    redis_url: str, redis: redis_py.Redis
) -> None:
    redis.zadd("ns:retry", {job("J", queue="ns:mail"): 1, b'{"class":"J","args":[],"jid":"a"}': 2})
    with own_app(redis_url, namespace="ns") as app:
        assert told(app.inspector.retry(RETRIES, Filter())).done == 2
    assert redis.smembers("ns:queues") == {b"mail", b"default"}
    assert json.loads(redis.lindex("ns:queue:mail", 0))["queue"] == "mail"
    assert json.loads(redis.lindex("ns:queue:default", 0))["queue"] == "default"


def test_jobs_that_cannot_be_retried_stay_and_the_others_are_retried(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    redis.set("queue:broken", "no list")
    entries = {b"{no job": 1, job("J", queue=[1]): 2, job("J", queue="broken"): 3}
    redis.zadd("retry", {**entries, job("J", jid="good"): 4})
    assert told(inspector.retry(RETRIES, Filter(), dry_run=True)) == Changed(4)
    changed = told(inspector.retry(RETRIES, Filter()))
    assert changed.done == 1
    assert {problem[:46] for problem in changed.problems} == {
        "not moved: class=J jid=? queue=broken: WRONGTY",
        f"not retried: jid {StoredJob(job('J', queue=[1])).jid}: its fi",
        f"not retried: jid {StoredJob(b'{no job').jid}: its pa",
    }
    assert set(redis.zrange("retry", 0, -1)) == set(entries)
    assert redis.llen("queue:q") == 1


def test_an_entry_that_ruby_cannot_read_is_enclosed_as_text_when_it_is_killed(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    redis.zadd("retry", {b"[1]": 1.0})
    assert told(inspector.kill(RETRIES, Filter())) == Changed(1)
    (entry,) = map(json.loads, redis.zrange("dead", 0, -1))
    assert (entry["class"], entry["args"]) == (enclosure.CLASS, ["[1]"])


def test_a_killed_job_is_dead_unchanged_and_the_dead_set_is_trimmed(redis_url: str, redis: redis_py.Redis) -> None:
    redis.zadd("dead", {b"ancient": 5})
    raws = {job("J", n): n for n in range(4)}
    redis.zadd("retry", raws)
    before = time.time()
    with own_app(redis_url, dead_max_jobs=3, dead_timeout=1000) as app:
        assert told(app.inspector.kill(RETRIES, Filter())) == Changed(4)
    assert set(redis.zrange("dead", 0, -1)) < set(raws)
    assert redis.zcard("dead") == 3
    assert redis.zrange("dead", 0, 0, withscores=True)[0][1] >= before - 5
    assert not redis.exists("retry")


def test_a_dead_job_cannot_be_killed_nor_can_a_waiting_one_be_moved(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    redis.zadd("dead", numbered(1))
    redis.lpush("queue:q", job())
    with pytest.raises(ArgumentError):
        inspector.kill(DEAD, Filter())
    for verb in (inspector.kill, inspector.retry):
        with pytest.raises(ArgumentError):
            verb(waiting_in("q"), Filter())
    with pytest.raises(ArgumentError):
        inspector.count(Place(JobState.IN_PROGRESS, "q"))
    assert (redis.zcard("dead"), redis.llen("queue:q")) == (1, 1)


@pytest.mark.parametrize("verb", ["retry", "kill", "delete"])
def test_a_job_that_has_gone_meanwhile_is_not_changed(inspector: Inspector, redis: redis_py.Redis, verb: str) -> None:
    redis.zadd("retry", {job("J", 1): 1})

    class Vanishing(Wanted):
        def fits(self, job: StoredJob) -> bool:
            return bool(redis.delete("retry"))

    assert told(getattr(inspector, verb)(RETRIES, Vanishing())) == Changed()
    assert redis.keys() == []


def test_no_job_is_lost_or_doubled_when_three_threads_retry_at_once(redis_url: str, redis: redis_py.Redis) -> None:
    """Two threads retry every job and one every second job: each job is in the queue exactly once at the end."""
    redis.zadd("retry", numbered(3_000))

    class EverySecond(Wanted):
        def __init__(self) -> None:
            self._turns = itertools.cycle([True, False])

        def fits(self, job: StoredJob) -> bool:
            return next(self._turns)

    def work(wanted: Filter | EverySecond) -> None:
        with own_app(redis_url) as app:
            told(app.inspector.retry(RETRIES, wanted))

    threads = [threading.Thread(target=work, args=(wanted,)) for wanted in (Filter(), Filter(), EverySecond())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    jids = sorted(json.loads(raw)["jid"] for raw in redis.lrange("queue:q", 0, -1))
    assert jids == sorted(f"jid-{n:06}" for n in range(3_000))
    assert not redis.exists("retry")


def test_unreadable_entries_stop_no_retry_of_others_with_the_same_time(
    inspector: Inspector, redis: redis_py.Redis
) -> None:
    readable = [b'{"class":"J","args":[%d],"queue":"q","jid":"%d"}' % (n, n) for n in range(3 * PAGE)]
    unreadable = [b"%d, no job" % n for n in range(4)]
    redis.zadd("retry", dict.fromkeys([*readable, *unreadable], 5.0))
    changed = told(inspector.retry(RETRIES, Filter()))
    assert changed.done == len(readable)
    assert changed.problems
    assert redis.zcard("retry") == len(unreadable)


def test_a_job_that_comes_back_at_once_is_not_changed_forever(inspector: Inspector, redis: redis_py.Redis) -> None:
    redis.zadd("retry", numbered(20))
    numbers = itertools.count(1_000)

    class Returning(Wanted):
        def fits(self, _: StoredJob) -> bool:
            number = next(numbers)
            redis.zadd("retry", {job("J", "again", number): number})
            return True

    assert [changed.done for _, changed in inspector.delete(RETRIES, Returning())] == [20]
    assert redis.zcard("retry") == 20
