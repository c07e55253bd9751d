"""A fleet of a million retries, a million dead jobs, 200 queues and 100 processes; and how long the pages take over it.

python tests/support/web_million.py redis://127.0.0.1:6379/0      (empties that database)
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Iterator

import redis as redis_py
from web_scene import CLASSES, ERRORS
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application
from goworkers_py.web.views.all_views import TABLE

AT_ONCE = 5_000
PER_QUEUE = 50
ROUNDS = 20


def failed(number: int, at: float, chance: random.Random) -> bytes:
    error, message = ERRORS[chance.randrange(len(ERRORS))]
    job_class = f"{CLASSES[chance.randrange(len(CLASSES))]}{chance.randrange(7)}"
    return (
        f'{{"class":"{job_class}","args":[{number},{{"locale":"de"}}],"jid":"{number:024x}","queue":"q{number % 200}",'
        f'"retry":true,"created_at":{at - 4000:.3f},"enqueued_at":{at - 3900:.3f},"error_class":"{error}",'
        f'"error_message":{json.dumps(message)},"failed_at":{at - 3000:.3f},"retry_count":3}}'
    ).encode()


def jobs(count: int, start: float, step: float) -> Iterator[dict[bytes, float]]:
    chance, now = random.Random(7), time.time()
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(count, first + AT_ONCE))
        yield {failed(number, now, chance): start + step * number for number in numbers}


def fill_million(redis: redis_py.Redis, jobs_of_each: int = 1_000_000, queues: int = 200, processes: int = 100) -> None:
    now = time.time()
    for key, start, step in (("retry", now + 10, 0.1), ("dead", now - 2_000_000, 1.9)):
        for some in jobs(jobs_of_each, start, step):
            redis.zadd(key, some)  # type: ignore[arg-type]
    pipe = redis.pipeline(transaction=False)
    for number in range(queues):
        pipe.sadd("queues", f"q{number}")
        pipe.lpush(f"queue:q{number}", *(failed(n, now, random.Random(n)) for n in range(PER_QUEUE)))
    for number in range(processes):
        _process(pipe, number, now, [f"q{(number * 10 + n) % queues}" for n in range(10)])
    pipe.execute()


def _process(pipe: redis_py.client.Pipeline, number: int, now: float, queues: list[str]) -> None:
    """A process of Sidekiq, with five running jobs."""
    identity = f"host{number}:1:{number:012x}"
    info = {"hostname": f"host{number}", "started_at": now - 9_000, "pid": 1, "tag": "app", "concurrency": 10,
            "queues": queues, "labels": [], "identity": identity, "version": "8.0.4", "embedded": False}  # fmt: skip
    told = {"info": json.dumps(info), "busy": 5, "beat": now, "quiet": "false", "rtt_us": 100, "rss": 90_000}
    pipe.sadd("processes", identity)
    pipe.hset(identity, mapping=told)  # type: ignore[arg-type]
    pipe.expire(identity, 36_000)
    for thread in range(5):
        work = {"queue": queues[0], "payload": failed(thread, now, random.Random(thread)).decode(), "run_at": int(now)}
        pipe.hset(f"{identity}:work", f"t{thread}", json.dumps(work))
    pipe.expire(f"{identity}:work", 36_000)


PATHS = (
    "/jobs?state=retry", "/jobs?state=dead", "/jobs?state=retry&order=newest", "/jobs?state=dead&class=MailJob3",
    "/jobs?state=retry&class=nosuch", "/jobs?state=retry&match=nosuch", "/jobs?state=running", "/jobs?state=waiting",
    "/queue?name=q7",
)  # fmt: skip


def pages() -> list[str]:
    free = [path for path, view in TABLE.views.items() if view.template and not any(one.needed for one in view.query)]
    return [*free, *PATHS]


def measure(app: App, rounds: int = ROUNDS) -> dict[str, float]:
    """The 95th percentile of each page, in milliseconds. Values that pages share are as old as in use: the pages are
    asked for in turns, two seconds after each other."""
    client = Client(application(app, authorize=lambda environ, action: True))
    for path in pages():
        client.get(path)
    time.sleep(3)
    took: dict[str, list[float]] = {path: [] for path in pages()}
    for _ in range(rounds):
        for path, times in took.items():
            began = time.perf_counter()
            assert client.get(path, Accept_Encoding="gzip").status == 200, path
            times.append(1_000 * (time.perf_counter() - began))
        time.sleep(2)
    return {path: statistics.quantiles(times, n=20)[-1] for path, times in took.items()}


if __name__ == "__main__":
    with redis_py.Redis.from_url(sys.argv[1]) as server:
        server.flushdb()
        began = time.perf_counter()
        fill_million(server, *map(int, sys.argv[2:3]))
        print(f"filled in {time.perf_counter() - began:.0f} s")
    measured = App()
    measured.configure(redis=sys.argv[1])
    for name, p95 in sorted(measure(measured).items(), key=lambda one: -one[1]):
        print(f"{p95:8.1f} ms  {name}")
