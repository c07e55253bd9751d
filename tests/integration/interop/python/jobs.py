"""The job classes of a real `pyworkers` process, as ../ruby/worker.rb has those of Sidekiq.

A job that returns appends what it was given to the list `ran`, one that raises to `raised`. TerseJob is for the many:
it only writes the payload to a file.
"""

import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import redis

import goworkers_py as workers
from goworkers_py.core.timing import Timing

workers.app.timing = Timing(beat_every_s=0.3)  # nobody wants to watch a page for five seconds
lists = redis.Redis.from_url(os.environ["INTEROP_REDIS"])
terse = Path(os.environ["INTEROP_TERSE"]).open("ab", buffering=0)  # noqa: SIM115


def record(name: str, args: tuple[Any, ...]) -> None:
    message = workers.current_message()
    assert message is not None
    run = {
        "class": message.job_class,
        "jid": message.jid,
        "queue": message.queue,
        "retry_count": message.retry_count,
        "failed_at": message.failed_at,
        "args": args,
        "at": time.time(),
        "raw": message.raw.decode(),
    }
    lists.rpush(name, json.dumps(run))


@workers.job("PythonJob", queue="py")
@workers.job("GoJob", queue="py")
@workers.job("RubyJob", queue="py")
@workers.job("Billing::InvoiceJob", queue="py")
def succeed(*args: Any) -> None:
    record("ran", args)


@dataclass
class Line:
    sku: str
    price: Decimal


@workers.job("TypedJob", queue="py")
def typed(order: uuid.UUID, lines: list[Line], *, day: date, at: datetime, copies: int = 1) -> None:
    record("ran", (repr((order, lines, day, at.astimezone(timezone.utc), copies)),))


@workers.job("WaitingJob", queue="py")
def wait(*args: Any) -> None:
    while not lists.exists("open"):
        time.sleep(0.05)
    record("ran", args)


@workers.job("TerseJob", queue="py")
def note(*args: Any) -> None:
    message = workers.current_message()
    assert message is not None
    assert list(args) == message["args"]
    terse.write(message.raw + b"\n")  # one write, so that lines of several threads and processes do not mix


@workers.job("SteppingJob", queue="py")
def step(*, cursor: int = 0) -> Iterator[int]:
    yield cursor + 41
    raise ValueError("failed between two steps")


@workers.job("FailingJob", queue="py")
def fail(*args: Any) -> None:
    record("raised", args)
    deeper(5)


def deeper(levels: int) -> None:
    if levels == 0:
        raise ValueError("failed <on purpose> é")
    deeper(levels - 1)
