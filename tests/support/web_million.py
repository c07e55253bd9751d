"""A fleet in deep trouble: a million retries, a million dead jobs, 200 queues, 100 processes; and how long the pages
take over it.

python tests/support/web_million.py redis://127.0.0.1:6379/0      (empties that database)
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import redis as redis_py
from web_processes import ProcessScene, python_process, ruby_process
from wsgi_client import Client

from goworkers_py import App
from goworkers_py.web import application
from goworkers_py.web.views.all_views import TABLE
from goworkers_py.wire.failure import pack_backtrace

CLASSES = [f"{area}::{job}Job" for area in ("Shop", "Mail", "Search", "Import", "Billing")
           for job in ("Render", "Sync", "Notify", "Export", "Clean", "Index", "Charge", "Refresh")]  # fmt: skip
ERRORS = [
    (f"{library}::{kind}", f"{kind} while asking %d of {library.lower()}.example.com (attempt %d)")
    for library in ("Net", "ActiveRecord", "Redis", "Stripe", "builtins")
    for kind in ("ReadTimeout", "ConnectionError", "KeyError")
]
CHUNK = 1_000  # entries of a ZADD
ROUNDS = 20


def fill_million(
    redis_url: str, retries: int = 1_000_000, dead: int = 1_000_000, queues: int = 200, processes: int = 100
) -> None:
    chance, now = random.Random(1_000_000), time.time()
    names = [f"{'team' if number % 3 else 'service'}-{number:03}" for number in range(queues)]
    with redis_py.Redis.from_url(redis_url) as redis:
        _failed(redis, "retry", retries, chance, names, now, 1)
        _failed(redis, "dead", dead, chance, names, now, -1)
        _queues(redis, chance, names, now)
        _processes(redis, processes, chance, names, now)


def _failed(
    redis: redis_py.Redis, key: str, count: int, chance: random.Random, queues: Sequence[str], now: float, sign: int
) -> None:
    jobs = _payloads(chance, queues, now)
    for start in range(0, count, CHUNK):
        told: list[bytes | float] = []
        for payload in islice(jobs, min(CHUNK, count - start)):
            # Dead jobs lie three months back, retries come within a day, most of them soon.
            told += (
                now + sign * (chance.random() ** 3 * 86_400 if sign > 0 else chance.random() * 90 * 86_400),
                payload,
            )
        redis.execute_command("ZADD", key, *told)


def _payloads(chance: random.Random, queues: Sequence[str], now: float) -> Iterator[bytes]:
    """Failed jobs. A few classes and errors have most of them."""
    shapes = [_shape(name, error, number) for number, name in enumerate(CLASSES) for error in ERRORS]
    weights = [1 / (1 + one) / (1 + other) for one in range(len(CLASSES)) for other in range(len(ERRORS))]
    names = [queue.encode() for queue in queues]
    while True:
        for shape in chance.choices(shapes, weights, k=CHUNK):
            number, at = chance.getrandbits(40), now - chance.random() * 86_400
            yield shape % (number, b"%024x" % chance.getrandbits(96), chance.choice(names), number % 25,
                           at - 60, at - 50, at, number % 997, number % 25)  # fmt: skip


def _shape(name: str, error: tuple[str, str], number: int) -> bytes:
    """A payload with places for its numbers. Every tenth has a backtrace."""
    error_class, message = error
    backtrace = ""
    if number % 10 == 0:
        lines = [f"/app/jobs/{name.lower().replace('::', '/')}.rb:{line}:in `perform'" for line in range(12, 40)]
        backtrace = f',"error_backtrace":{json.dumps(pack_backtrace(lines))}'
    told = (
        f'{{"class":"{name}","args":[%d,{{"locale":"de","attempt":"first"}}],"jid":"%s","queue":"%s","retry":25,'
        f'"retry_count":%d,"created_at":%.3f,"enqueued_at":%.3f,"failed_at":%.3f,'
        f'"error_class":"{error_class}","error_message":"{message}"{backtrace}}}'
    )
    return told.encode()


def _queues(redis: redis_py.Redis, chance: random.Random, queues: Sequence[str], now: float) -> None:
    pipe = redis.pipeline(transaction=False)
    pipe.sadd("queues", *queues)
    pipe.sadd("paused", *queues[:3])
    jobs = _payloads(chance, queues, now)
    for queue in queues:
        waiting = [*islice(jobs, chance.choice((0, 0, 1, 5, 40, 300)))]
        if waiting:
            pipe.lpush(f"queue:{queue}", *waiting)
    pipe.execute()


def _processes(redis: redis_py.Redis, count: int, chance: random.Random, queues: Sequence[str], now: float) -> None:
    pipe = redis.pipeline(transaction=False)
    jobs = _payloads(chance, queues, now)
    for number in range(count):
        own = chance.sample(queues, min(8, len(queues)))
        running = [(chance.choice(own), next(jobs)) for _ in range(chance.randrange(11))]
        identity = f"worker-{number:03}.example.com:{1_000 + number}:{chance.getrandbits(48):012x}"
        told = ProcessScene(identity, [("shared", 10, own)], running, f"release {number % 4}", number % 20 == 0)
        (python_process if number % 3 else ruby_process)(pipe, told, now)
    pipe.execute()


PATHS = (
    "/jobs?state=retry", "/jobs?state=dead", "/jobs?state=retry&order=newest", "/jobs?state=dead&class=Mail::SyncJob",
    "/jobs?state=retry&class=nosuch", "/jobs?state=retry&match=nosuch", "/jobs?state=running", "/jobs?state=waiting",
    "/queue?name=team-007", "/jobs?state=retry&sort=job_class", "/jobs?state=dead&sort=-error&limit=500",
    "/queues?sort=-size", "/processes?sort=-cpu_share",
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
        fill_million(sys.argv[1], *map(int, sys.argv[2:6]))
        print(f"filled in {time.perf_counter() - began:.0f} s")
    measured = App()
    measured.configure(redis=sys.argv[1])
    for name, p95 in sorted(measure(measured).items(), key=lambda one: -one[1]):
        print(f"{p95:8.1f} ms  {name}")
