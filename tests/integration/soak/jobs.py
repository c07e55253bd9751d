"""The jobs of the soak: a kind for each feature. The daemons run them, and the producer pushes them.

The first argument of a job is its ticket, `KIND:NUMBER`. The last run of a job sends its ticket to the soak, in a
datagram: a daemon that is killed has lost none that it has sent.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from typing import Any

import goworkers_py as workers
from soak import ENDS

RETAIN_S = 60

_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


class Mishap(Exception):
    """A run fails, as it was told to."""


def end(ticket: str, late_s: float = -1.0) -> None:
    """`late_s`: how long the job had waited when it began."""
    _socket.sendto(f"{ticket} {late_s:.6f}".encode(), os.environ[ENDS])


def is_first_run() -> bool:
    message = workers.current_message()
    return message is None or message.retry_count is None


@workers.on_cancel
@workers.on_expire
def end_without_a_run(message: workers.Message) -> None:
    end(message.args[0])


# --- jobs by themselves


@workers.job("Soak::Plain", queue="plain")
def plain(ticket: str, pushed_at: float) -> None:
    late_s = time.time() - pushed_at
    end(ticket, late_s)


@workers.job("Soak::Ranked", queue="ranked", priority="normal")
def ranked(ticket: str) -> None:
    end(ticket)


@workers.job("Soak::Delayed", queue="plain")
def delayed(ticket: str) -> None:
    end(ticket)


@workers.job("Soak::Retried", queue="features", retry=5, retry_in=2)
def retried(ticket: str) -> None:
    if is_first_run():
        raise Mishap(ticket)
    end(ticket)


@workers.job("Soak::Dead", queue="features", retry=1, retry_in=1)
def dead(ticket: str) -> None:
    if not is_first_run():
        end(ticket)
    raise Mishap(ticket)


@workers.job("Soak::Tracked", queue="features", retain=RETAIN_S)
def tracked(ticket: str, *, text: str = "") -> dict[str, str]:
    message = workers.current_message()
    assert message is not None
    message.progress(1, 2, "half of it")
    end(ticket)
    return {"ticket": ticket, "text": text}


@workers.job("Soak::Cancelled", queue="slow", retain=RETAIN_S)
def cancelled(ticket: str) -> None:
    """Waits to be cancelled."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        time.sleep(0.05)
    end(ticket)


@workers.job("Soak::Expiring", queue="features", expires_in=0.001, retain=RETAIN_S)
def expiring(ticket: str) -> None:
    end(ticket)


@workers.job("Soak::Steps", queue="slow", time_slice=0.3, checkpoint=0.2, retain=RETAIN_S)
def steps(ticket: str, *, cursor: int = 0) -> Generator[int, None, int]:
    for number in range(cursor + 1, 11):
        time.sleep(0.05)
        yield number
    end(ticket)
    return 10


# --- not twice, not too many at once


@workers.job("Soak::Unique", queue="features", unique_for=600, unique_by=lambda ticket, key: key)
def unique(ticket: str, key: int) -> None:
    time.sleep(1)
    end(ticket)


@workers.job("Soak::Newest", queue="features", unique_for=600, unique_by=lambda ticket: ticket, on_conflict="replace")
def newest(ticket: str) -> None:
    end(ticket)


in_order = workers.limit("soak-order", concurrent=1, by=lambda ticket, key: key)
few = workers.limit("soak-few", concurrent=3)
paced = workers.limit("soak-paced", rate="10/second", burst=5)
door = workers.limit("soak-door", concurrent=2)


@workers.job("Soak::Ordered", queue="features", retry=5, retry_in=1, limits=[in_order])
def ordered(ticket: str, key: int) -> None:
    if is_first_run() and key == 0:
        raise Mishap(ticket)
    end(ticket)


@workers.job("Soak::Few", queue="features", limits=[few])
def of_few(ticket: str) -> None:
    time.sleep(0.05)
    end(ticket)


@workers.job("Soak::Paced", queue="features", limits=[paced])
def of_rate(ticket: str) -> None:
    end(ticket)


@workers.job("Soak::Block", queue="slow", retry=25, retry_in=1)
def block(ticket: str) -> None:
    with door.acquire(timeout=5):
        time.sleep(0.05)
    end(ticket)


# --- many as one, one after the other


@workers.job("Soak::Part", queue="features", retry=5, retry_in=1)
def part(fails: bool) -> None:
    if fails and is_first_run():
        raise Mishap


@workers.job("Soak::Callback", queue="plain")
def callback(ticket: str) -> None:
    end(ticket)


@workers.job("Soak::Link", queue="features")
def link(number: int, before: Any = None) -> int:
    time.sleep(0.05)
    return number


@workers.job("Soak::LastLink", queue="features")
def last_link(ticket: str, before: Any) -> None:
    end(ticket)


@workers.job("Soak::Member", queue="features", group_grace=1, group_max_delay=3, group_max_size=10)
def member(*tickets: str) -> None:
    for ticket in tickets:
        end(ticket)


@member.aggregate
def gather(members: list[list[str]]) -> list[str]:
    return [ticket for tickets in members for ticket in tickets]


@workers.job("Soak::Parent", queue="features", atomic=True)
def parent(tickets: list[str]) -> None:
    """Its children end, not itself."""
    child.enqueue_bulk([[ticket] for ticket in tickets[1:]])
    child.enqueue_in(1, tickets[0])


@workers.job("Soak::Child", queue="features")
def child(ticket: str) -> None:
    end(ticket)


# --- pushed by others


@workers.periodic(every=2, args=lambda slot: [f"tick:{slot:%s}"])
@workers.job("Soak::Tick", queue="plain")
def tick(ticket: str) -> None:
    workers.report("tick", {"ticket": ticket})
    end(ticket)


def take_body(body: dict[str, str]) -> None:
    """The handler of the plain list."""
    end(body["ticket"])


@workers.command("soak-echo")
def echo(word: str) -> str:
    return word
