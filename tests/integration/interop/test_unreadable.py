"""Ruby cannot read some payloads. Its API and pages show what a daemon of ours makes of them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import redis as redis_py
from browser import SidekiqWeb
from daemon import Daemon
from programs import JOBS, PyWorkers, Ruby, make_due
from waiting import eventually

from goworkers_py.wire import enclosure

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

NO_JOBS = [b"12", b"[1,2]", b"null", b'"J"', b"{no", b"\xff\x00", b"[" * 200 + b"]" * 200]
FLAWED = [
    rb'{"class":"FailingJob","args":["\ud800"],"jid":"half","queue":"py","retry":5}',
    b'{"class":"FailingJob","args":[1e400],"jid":"infinite","queue":"py","retry":5}',
]

# Fields of wrong types: Sidekiq's pages stumble over them, or its client does and loses the job.
WRAPPER = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"
FIELDS = [
    {"tags": "eu"}, {"tags": 5}, {"tags": True}, {"tags": {"a": 1}}, {"tags": [1, None, ["a"], {"b": 2}]},
    {"cattr": "text"}, {"cattr": [["user", 1]]}, {"cattr": {"user": 1}}, {"retry_for": "day"}, {"args": "text"},
    {"args": None}, {"created_at": "today"}, {"created_at": True}, {"created_at": [1]}, {"enqueued_at": {}},
    {"failed_at": "2025-02-14 08:43:10 UTC"}, {"retried_at": "never"}, {"retry_count": "3"}, {"error_class": 5},
    {"error_message": ["a"]}, {"error_backtrace": 5}, {"display_class": ["a"]}, {"encrypt": True, "args": []},
    {"encrypt": 1}, {"bid": ["a"]}, {"at": "soon"}, {"wrapped": 5}, {"queue": 5}, {"jid": 5},
    {"class": WRAPPER, "wrapped": "Mail", "args": []}, {"class": WRAPPER, "wrapped": "Mail", "args": [5]},
    {"class": WRAPPER, "wrapped": "Mail", "args": [{"arguments": 5}]},
    {"class": WRAPPER, "wrapped": "ActionMailer::MailDeliveryJob", "args": [{"arguments": ["M", "m", "d", 5]}]},
    {"class": WRAPPER, "args": []},
]  # fmt: skip


def of_fields(fields: dict[str, object], number: int) -> bytes:
    plain = {"class": "FailingJob", "args": [], "jid": f"field-{number}", "queue": "py", "retry": 5}
    return json.dumps({**plain, **fields}).encode()


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=60) as answer:  # our own server
        return int(answer.status)


def test_ruby_reads_what_was_buried_and_loses_no_retry(
    redis: redis_py.Redis, ruby: Ruby, redis_url: str, tmp_path: Path
) -> None:
    jobs, places = JOBS.read_text("utf-8"), {"INTEROP_REDIS": redis_url, "INTEROP_TERSE": str(tmp_path / "terse")}
    flags = ("--queue", "py", "--poll-interval", "0.1")
    with SidekiqWeb(redis_url) as web, Daemon(tmp_path, redis_url, jobs, *flags, changes=places):
        redis.lpush("queue:py", *NO_JOBS[:4], *FLAWED)
        redis.zadd("schedule", dict.fromkeys(NO_JOBS[4:], 1))
        assert eventually(lambda: redis.zcard("dead") == len(NO_JOBS) + len(FLAWED))
        assert not redis.exists("retry", "schedule")
        assert len(ruby.api("list", "dead")) == len(NO_JOBS) + len(FLAWED)
        for page in ("/morgue", "/retries", "/busy", "/scheduled", "/queues"):
            assert status(web.url + page) == 200
        for raw, score in redis.zrange("dead", 0, -1, withscores=True):
            assert status(f"{web.url}/morgue/{score}-{json.loads(raw)['jid']}") == 200
    kept = [enclosure.original(json.loads(raw)) for raw in redis.zrange("dead", 0, -1)]
    assert set(NO_JOBS) < set(kept)


def test_ruby_shows_a_running_job_whose_arguments_it_cannot_read(
    redis: redis_py.Redis, pyworkers: PyWorkers, redis_url: str
) -> None:
    with SidekiqWeb(redis_url) as web, pyworkers("py"):
        for raw in FLAWED:
            redis.lpush("queue:py", raw.replace(b"FailingJob", b"WaitingJob"))
        assert eventually(lambda: any(redis.hlen(key) == 2 for key in redis.keys("*:workers")))
        assert status(f"{web.url}/busy") == 200
        redis.set("open", 1)
        assert eventually(lambda: not redis.keys("queue:py*"))


def test_no_field_of_a_wrong_type_ends_a_page_or_is_lost_in_ruby(
    redis: redis_py.Redis, redis_url: str, tmp_path: Path
) -> None:
    """Some of these jobs are retried and others are buried. Each one is kept, and every page shows them."""
    jobs, places = JOBS.read_text("utf-8"), {"INTEROP_REDIS": redis_url, "INTEROP_TERSE": str(tmp_path / "terse")}
    flags = ("--queue", "py", "--poll-interval", "1000")
    with SidekiqWeb(redis_url) as web, Daemon(tmp_path, redis_url, jobs, *flags, changes=places):
        redis.lpush("queue:py", *(of_fields(fields, number) for number, fields in enumerate(FIELDS)))
        assert eventually(lambda: redis.zcard("dead") + redis.zcard("retry") == len(FIELDS)), redis.llen("queue:py")
        broken = [page for page in ("/morgue", "/retries") if answer(web.url + page) != 200]
        for name, page in (("dead", "morgue"), ("retry", "retries")):
            for raw, score in redis.zrange(name, 0, -1, withscores=True):
                if answer(f"{web.url}/{page}/{score}-{json.loads(raw)['jid']}") != 200:
                    broken.append((page, raw))
        assert broken == []


def test_ruby_promotes_every_retry_that_we_have_written(
    redis: redis_py.Redis, ruby: Ruby, redis_url: str, tmp_path: Path
) -> None:
    jobs, places = JOBS.read_text("utf-8"), {"INTEROP_REDIS": redis_url, "INTEROP_TERSE": str(tmp_path / "terse")}
    with Daemon(tmp_path, redis_url, jobs, "--queue", "py", "--poll-interval", "1000", changes=places):
        redis.lpush("queue:py", *(of_fields(fields, number) for number, fields in enumerate(FIELDS)))
        assert eventually(lambda: redis.zcard("dead") + redis.zcard("retry") == len(FIELDS))
    retried = redis.zcard("retry")
    make_due(redis, "retry")
    with ruby.sidekiq("rb"):
        assert eventually(lambda: redis.zcard("retry") + redis.zcard("schedule") == 0, 30)
    assert redis.llen("queue:py") == retried


def answer(url: str) -> int:
    try:
        return status(url)
    except urllib.error.HTTPError as error:
        return error.code
