"""Fills queues and the schedule with jobs in Sidekiq's format: the same for every system that reads it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import redis

from bench.systems import KEYS, QUEUE

SLICE = 1_000
PLACE = "x" * 8
SLICE_BYTES = 4_000_000


def payloads(count: int, job: str, args: list[Any], queue: str = QUEUE, now: str = "") -> Iterator[str]:
    now = now or repr(time.time())
    head = f'{{"retry":true,"queue":"{queue}","class":"{job.capitalize()}","args":'
    tail = f'","created_at":{now},"enqueued_at":{now}}}'
    # A long text begins with the job's number. Real ones differ early too, which matters to a system that removes a job
    # by its bytes: the server compares them with those of other jobs.
    before, _, behind = json.dumps(args).partition(PLACE)
    for number in range(count):
        own = f"{before}{number:08d}{behind}" if behind else before
        yield f'{head}{own},"jid":"{number:024x}{tail}'


def fill(server: redis.Redis, count: int, job: str, args: list[Any], queue: str = QUEUE, key: str = "") -> None:
    key = key or KEYS.queue(queue)
    for some in _slices(payloads(count, job, args, queue)):
        server.lpush(key, *some)


def schedule(server: redis.Redis, count: int, at: float, queue: str) -> None:
    for some in _slices(payloads(count, "noop", [], queue)):
        server.zadd(KEYS.schedule, dict.fromkeys(some, at))


def _slices(texts: Iterator[str]) -> Iterator[list[str]]:
    some: list[str] = []
    size = 0
    for text in texts:
        some.append(text)
        size += len(text)
        if len(some) == SLICE or size > SLICE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
