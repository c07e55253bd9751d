"""Ruby cannot read some payloads. Its API and pages show what a daemon of ours makes of them."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
import redis as redis_py
from browser import SidekiqWeb
from daemon import Daemon
from programs import JOBS, PyWorkers, Ruby
from waiting import eventually

from goworkers_py.wire import enclosure

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

NO_JOBS = [b"12", b"[1,2]", b"null", b'"J"', b"{no", b"\xff\x00", b"[" * 200 + b"]" * 200]
FLAWED = [
    rb'{"class":"FailingJob","args":["\ud800"],"jid":"half","queue":"py","retry":5}',
    b'{"class":"FailingJob","args":[1e400],"jid":"infinite","queue":"py","retry":5}',
]


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
