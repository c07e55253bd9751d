"""The sets as people read and change them, on a real server and while others change them too."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial

import pytest
import redis as redis_py
from apps import job

from goworkers_py.admin.entries import PAGE, Entry, Filter
from goworkers_py.admin.job_sets import Changed, JobSet, SetName
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.wire import enclosure as burial
from goworkers_py.wire.message import Timestamps

SECONDS = Timestamps()


@pytest.fixture
def connections(redis_url: str) -> Iterator[Connections]:
    with closing(Connections(redis_url)) as connections:
        yield connections


def a_set(connections: Connections, name: SetName = SetName.RETRIES, namespace: str = "") -> JobSet:
    return JobSet(connections, Keys(namespace), name)


@pytest.fixture
def retries(connections: Connections) -> JobSet:
    return a_set(connections)


def numbered(count: int, score: float | None = None) -> dict[str | bytes, float]:
    return {job("J", n, jid=f"jid-{n:06}"): n if score is None else score for n in range(count)}


def seen(pages: Iterator[list[Entry]]) -> list[bytes]:
    return [entry.raw for page in pages for entry in page]


def all_of(entries: Iterator[list[Entry]]) -> list[Entry]:
    return list(itertools.chain.from_iterable(entries))


# --- reading


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("score", [None, 7.0], ids=["own times", "one time"])
def test_all_entries_are_read_in_pages_and_in_order(
    retries: JobSet, redis: redis_py.Redis, newest_first: bool, score: float | None
) -> None:
    redis.zadd("retry", numbered(2 * PAGE + 10, score))
    expected = redis.zrange("retry", 0, -1, desc=newest_first)
    pages = list(retries.pages(newest_first))
    assert [len(page) for page in pages] == [PAGE, PAGE, 10]
    assert [entry.raw for page in pages for entry in page] == expected
    assert pages[0][0].at == redis.zscore("retry", expected[0])


@pytest.mark.parametrize("newest_first", [False, True])
def test_what_comes_and_goes_meanwhile_makes_none_of_the_others_be_passed_over(
    retries: JobSet, redis: redis_py.Redis, newest_first: bool
) -> None:
    redis.zadd("retry", numbered(3 * PAGE))
    before = redis.zrange("retry", 0, -1)
    pages = retries.pages(newest_first)
    found = [entry.raw for entry in next(pages)]
    gone = set(before[: PAGE // 2] + before[-PAGE // 2 :])
    redis.zrem("retry", *gone)
    redis.zadd("retry", {b"early": -1, b"late": 10_000_000})
    found += seen(pages)
    assert set(before) - gone <= set(found)


def test_a_set_that_empties_while_it_is_read_has_an_end(retries: JobSet, redis: redis_py.Redis) -> None:
    redis.zadd("retry", numbered(2 * PAGE))
    pages = retries.pages()
    next(pages)
    redis.delete("retry")
    assert list(pages) == []


def test_entries_of_one_time_are_all_read_while_every_one_is_deleted(retries: JobSet, redis: redis_py.Redis) -> None:
    redis.zadd("retry", numbered(2 * PAGE + 5, 7.0))
    deleted = sum(retries.delete(page).done for page in retries.pages())
    assert (deleted, redis.zcard("retry")) == (2 * PAGE + 5, 0)


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
def test_all_that_a_filter_says_must_fit(wanted: Filter, fits: bool) -> None:
    assert wanted.fits(Entry(FAILED)) is fits


def test_a_filter_knows_active_jobs_by_both_of_their_classes() -> None:
    entry = Entry(job("Sidekiq::ActiveJob::Wrapper", wrapped="ReportJob"))
    assert Filter(job_class="ReportJob").fits(entry)
    assert Filter(job_class="Sidekiq::ActiveJob::Wrapper").fits(entry)


def test_a_jid_that_json_writes_in_several_ways_is_found() -> None:
    assert Filter(jids=["jé/1"]).fits(Entry(rb'{"class":"J","jid":"j\u00e9\/1"}'))


def test_what_cannot_be_read_is_found_by_its_bytes_only() -> None:
    entry = Entry(b"{\xff no job")
    assert Filter(match="no job").fits(entry)
    assert Filter(match="\udcff").fits(entry)  # as the command line hands on a byte that is no text
    assert not Filter(job_class="J").fits(entry)
    assert not Filter(jids=["no"]).fits(entry)


def test_a_job_is_written_as_it_lies_there_in_one_line() -> None:
    raw = b'{"class":"J", "args":[1.0e+16,12345678901234567890.10,"\\ud800"],\n"x":1}'
    line = Entry(raw, at=1.5).as_json
    assert "\n" not in line
    assert '"args":[1.0e+16,12345678901234567890.10,"\\ud800"]' in line
    assert json.loads(line)["at"] == 1.5
    assert json.loads(Entry(b"\xff").as_json) == {"jid": Entry(b"\xff").jid, "unreadable": "\N{REPLACEMENT CHARACTER}"}


def test_nothing_in_a_job_is_obeyed_by_a_terminal_that_shows_it_as_json() -> None:
    tricks = {"class": "a\x7f\x9b2J\u2028b\u202e\x1b", "args": ["größer"]}
    line = Entry(json.dumps(tricks, ensure_ascii=False).encode()).as_json
    assert line.isprintable()
    assert json.loads(line)["job"] == tricks
    assert "größer" in line


# --- changing


def retry_all(jobs: JobSet, timestamps: Timestamps = SECONDS) -> Changed:
    return jobs.retry(all_of(jobs.pages()), timestamps)


@pytest.mark.parametrize("namespace", ["", "ns"])
def test_a_retry_follows_sidekiqs_rules(connections: Connections, redis: redis_py.Redis, namespace: str) -> None:
    keys = Keys(namespace)
    raw = (
        b'{"class":"J","args":[1.0e+16],"queue":"mail","at":5.5,"retry_count":3,"error_class":"E",'
        b'"error_message":"m","failed_at":1.5,"odd":[]}'
    )
    redis.zadd(keys.dead, {raw: 9})
    before = time.time()
    assert retry_all(a_set(connections, SetName.DEAD, namespace)) == Changed(1)
    [pushed] = redis.lrange(keys.queue("mail"), 0, -1)
    fields = json.loads(pushed)
    assert before <= fields.pop("enqueued_at") <= time.time()
    assert len(fields.pop("jid")) == 24
    assert fields == {**{n: v for n, v in json.loads(raw).items() if n != "at"}, "retry_count": 2}
    assert b"1.0e+16" in pushed
    assert redis.smembers(keys.queues) == {b"mail"}
    assert not redis.exists(keys.dead)


def test_a_scheduled_job_has_no_count_to_take_from_and_milliseconds_are_written_where_asked_for(
    connections: Connections, redis: redis_py.Redis
) -> None:
    redis.zadd("schedule", {job("J", jid="a"): 4e9})
    assert retry_all(a_set(connections, SetName.SCHEDULED), Timestamps("ms")).done == 1
    fields = json.loads(redis.lindex("queue:q", 0))
    assert "retry_count" not in fields
    assert isinstance(fields["enqueued_at"], int)


def test_retried_jobs_line_up_behind_those_that_wait(retries: JobSet, redis: redis_py.Redis) -> None:
    redis.lpush("queue:q", b"waits")
    redis.zadd("retry", {job("J", 1): 1, job("J", 2): 2})
    retry_all(retries)
    assert [json.loads(raw)["args"] for raw in redis.lrange("queue:q", 0, 1)] == [[2], [1]]
    assert redis.lindex("queue:q", -1) == b"waits"


def test_a_queue_with_the_prefix_of_go_workers_and_none_at_all(connections: Connections, redis: redis_py.Redis) -> None:
    redis.zadd("ns:retry", {job("J", queue="ns:mail"): 1, b'{"class":"J","args":[],"jid":"a"}': 2})
    assert retry_all(a_set(connections, namespace="ns")).done == 2
    assert redis.smembers("ns:queues") == {b"mail", b"default"}


def test_what_cannot_be_retried_stays_and_the_rest_goes_on(retries: JobSet, redis: redis_py.Redis) -> None:
    redis.set("queue:broken", "no list")
    entries = {b"{no job": 1, job("J", queue=[1]): 2, job("J", queue="broken"): 3}
    redis.zadd("retry", {**entries, job("J", jid="good"): 4})
    changed = retry_all(retries)
    assert changed.done == 1
    assert {problem[:46] for problem in changed.problems} == {
        "not moved: class=J jid=? queue=broken: WRONGTY",
        f"not retried: jid {Entry(job('J', queue=[1])).jid}: its qu",
        f"not retried: jid {Entry(b'{no job').jid}: no job",
    }
    assert set(redis.zrange("retry", 0, -1)) == set(entries)
    assert redis.llen("queue:q") == 1


def test_an_entry_that_ruby_cannot_read_is_killed_as_text(connections: Connections, redis: redis_py.Redis) -> None:
    redis.zadd("retry", {b"[1]": 1.0})
    retries = JobSet(connections, Keys(""), SetName.RETRIES)
    (page,) = retries.pages()
    assert retries.kill(page).done == 1
    (entry,) = map(json.loads, redis.zrange("dead", 0, -1))
    assert (entry["class"], entry["args"]) == (burial.CLASS, ["[1]"])


def test_a_killed_job_lies_in_the_dead_set_unchanged_and_the_set_is_trimmed(
    connections: Connections, redis: redis_py.Redis
) -> None:
    redis.zadd("dead", {b"ancient": 5})
    raws = {job("J", n): n for n in range(4)}
    redis.zadd("retry", raws)
    before = time.time()
    jobs = JobSet(connections, Keys(), SetName.RETRIES, (3, 1000.0))
    assert jobs.kill(all_of(jobs.pages())) == Changed(4)
    assert set(redis.zrange("dead", 0, -1)) < set(raws)
    assert redis.zcard("dead") == 3
    assert redis.zrange("dead", 0, 0, withscores=True)[0][1] >= before - 5
    assert not redis.exists("retry")


@pytest.mark.parametrize("how", ["retry", "kill", "delete"])
def test_what_has_gone_meanwhile_is_left_alone(retries: JobSet, redis: redis_py.Redis, how: str) -> None:
    redis.zadd("retry", {job("J", 1): 1})
    entries = all_of(retries.pages())
    redis.delete("retry")
    actions = {"retry": lambda: retries.retry(entries, SECONDS), "kill": lambda: retries.kill(entries)}
    assert actions.get(how, lambda: retries.delete(entries))() == Changed()
    assert redis.keys() == []


def test_no_job_is_lost_or_doubled_while_a_scheduler_takes_and_others_retry(
    redis_url: str, redis: redis_py.Redis
) -> None:
    """Two who retry everything and one who promotes, at once: each entry ends in the queue exactly once."""
    redis.zadd("retry", numbered(3_000))

    def work(act: str) -> None:
        with closing(Connections(redis_url)) as connections:
            jobs = a_set(connections)
            for page in jobs.pages():
                jobs.retry(page if act == "all" else page[::2], SECONDS)

    threads = [threading.Thread(target=work, args=(act,)) for act in ("all", "all", "half")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    jids = sorted(json.loads(raw)["jid"] for raw in redis.lrange("queue:q", 0, -1))
    assert jids == sorted(f"jid-{n:06}" for n in range(3_000))
    assert not redis.exists("retry")


def test_what_stays_among_entries_of_one_time_holds_up_no_other(retries: JobSet, redis: redis_py.Redis) -> None:
    readable = [b'{"class":"J","args":[%d],"queue":"q","jid":"%d"}' % (n, n) for n in range(3 * PAGE)]
    unreadable = [b"%d, no job" % n for n in range(4)]
    redis.zadd("retry", dict.fromkeys([*readable, *unreadable], 5.0))
    how = partial(retries.retry, timestamps=SECONDS)
    steps = [changed for _, changed in retries.change(how, lambda entry: True, redis.zcard("retry"))]
    assert sum(changed.done for changed in steps) == len(readable)
    assert any(changed.problems for changed in steps)
    assert redis.zcard("retry") == len(unreadable)


def test_a_job_that_comes_back_at_once_is_not_retried_for_ever(retries: JobSet, redis: redis_py.Redis) -> None:
    redis.zadd("retry", numbered(20))
    rounds = itertools.count(1)

    def retry_and_fail(chosen: Sequence[Entry]) -> Changed:
        number = next(rounds)
        redis.zadd("retry", {job("J", "again", number, n): 1_000 * number + n for n in range(len(chosen))})
        return retries.delete(chosen)

    changes = [changed.done for _, changed in retries.change(retry_and_fail, lambda entry: True, most=20)]
    assert changes == [20]
