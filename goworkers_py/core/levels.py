"""The levels of a queue with priorities: `mail@high`, `mail` and `mail@low`, which are queues as all others are.

A queue may have one more level, for a list into which other programs push bare bodies, which are no payloads:
`mail@plain:demo.prepare` is the list `demo.prepare`, or the queue of that name in RabbitMQ. The name says it all, so
that every process can recover bodies, whatever its configuration. A bare body is tied to nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from goworkers_py.core.errors import ArgumentError

Priority = Literal["high", "normal", "low"]

BARE = "@plain:"
_SUFFIXES = ("@high", "@low")


def levels_of(queue: str) -> tuple[str, str, str]:
    """In the order in which they are worked."""
    return f"{queue}@high", queue, f"{queue}@low"


def base_of(queue: str) -> str:
    """The queue of which this one is a level: `mail` for `mail@high`, and for `mail`."""
    if BARE in queue:
        return queue.partition(BARE)[0] or queue
    return queue.rpartition("@")[0] or queue if queue.endswith(_SUFFIXES) else queue


def bare_level(queue: str, name: str) -> str:
    """The level of a queue for the list of this name."""
    return f"{queue}{BARE}{name}"


def bare_list_of(queue: str) -> str:
    """The list whose bodies this level of a queue holds; empty for every other queue."""
    return queue.partition(BARE)[2] if BARE in queue else ""


def level_of(queue: str, priority: Priority | None) -> str:
    """The queue into which a job with this priority goes."""
    if priority is None:
        return queue
    if base_of(queue) != queue:
        raise ArgumentError(
            f"priority={priority!r}: the queue {queue!r} is a level already; give the queue {base_of(queue)!r}, or "
            "leave out the priority"
        )
    return queue if priority == "normal" else f"{queue}@{priority}"


def is_paused(queue: str, paused: Collection[str]) -> bool:
    """A pause of a queue holds for its levels too."""
    return queue in paused or base_of(queue) in paused
