"""The programs of all Python systems share this: three jobs to run, and a client that reads from stdin what to push.

`noop` does nothing, `nap` sleeps, `stamp` notes how long after a given moment its first line ran. No job
talks to Redis.

The client reads JSON lines such as {"do": "fill", "job": "noop", "args": [], "count": 1000} and answers each with one.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

URL = os.environ["BENCH_REDIS"]
# Appended to with one write a line, so lines of several threads and processes do not mix.
_STAMPS = os.open(os.environ["BENCH_STAMPS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

UNTIMED = 50
SLICE = 1_000

Push = Callable[..., Awaitable[Any] | Any]  # push(job, *args): one job, the everyday call
PushMany = Callable[[str, Sequence[Sequence[Any]]], Awaitable[Any] | Any]


def noop(*args: Any) -> None:
    pass


def nap(milliseconds: float, *args: Any) -> None:
    time.sleep(milliseconds / 1_000)


def stamp(sent_ns: int) -> None:
    now_ns = time.monotonic_ns()
    note(str(now_ns - sent_ns))


def note(text: str) -> None:
    os.write(_STAMPS, f"{text}\n".encode())


def serve(push: Push, push_many: PushMany | None = None) -> None:
    asyncio.run(_serve(push, push_many))


async def _serve(push: Push, push_many: PushMany | None) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(await _answer(request, push, push_many)), flush=True)


async def _answer(request: dict[str, Any], push: Push, push_many: PushMany | None) -> dict[str, Any]:
    job, args, count = request.get("job", "noop"), request.get("args", []), request.get("count", 1)
    if request["do"] == "stamp":
        await _settled(push("stamp", time.monotonic_ns() if request.get("clock", True) else 0))
        return {"pushed": 1}
    if request["do"] == "time":
        return {"ns": await _timed(push, job, args, count)}
    began = time.perf_counter()
    await _fill(push, push_many, job, args, count)
    return {"pushed": count, "seconds": time.perf_counter() - began}


async def _timed(push: Push, job: str, args: list[Any], count: int) -> list[int]:
    taken = []
    for _ in range(UNTIMED + count):
        began = time.perf_counter_ns()
        await _settled(push(job, *args))
        taken.append(time.perf_counter_ns() - began)
    return taken[UNTIMED:]


async def _fill(push: Push, push_many: PushMany | None, job: str, args: list[Any], count: int) -> None:
    for start in range(0, count, SLICE):
        rows = [args] * min(SLICE, count - start)
        if push_many is not None:
            await _settled(push_many(job, rows))
        else:
            await asyncio.gather(*[pending for row in rows if inspect.isawaitable(pending := push(job, *row))])


async def _settled(result: Awaitable[Any] | Any) -> None:
    if inspect.isawaitable(result):
        await result
