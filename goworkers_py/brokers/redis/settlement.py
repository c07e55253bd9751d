"""Takes jobs off in-progress lists and moves them, any number in one call of settle.lua."""

from __future__ import annotations

import datetime
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from goworkers_py.brokers.contracts.transport import Settled
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.effects import encode
from goworkers_py.brokers.redis.exchange import Argument, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.places import Row
from goworkers_py.brokers.redis.replies import list_of
from goworkers_py.core.effect import Effect
from goworkers_py.wire import enclosure

DAY_COUNTER_LIFE_S = 5 * 365 * 86_400
RECEIPT_LIFE_S = 3_600

# The step for one job, as settle.lua names it, with a score and a payload where the step needs them.
Target = tuple[str, float, bytes]


class Item(NamedTuple):
    owner: str
    payload: bytes
    target: Target
    effects: tuple[Effect, ...] = ()
    newest_first: bool = False  # from which end of the list to look for it


_SETTLE = Script(
    Path(__file__).parent / "lua/settle.lua", lambda reply: list_of(int, bytes)(reply) and len(reply) % 2 == 0
)


class Settlement:
    """Used by settlers and by recoveries, each with a settler name and batch numbers of its own."""

    def __init__(self, connections: Connections, keys: Keys, dead_limits: tuple[int, float]) -> None:
        self._connections = connections
        self._keys = keys
        self._dead_limits = dead_limits

    def settle(
        self, settler: str, number: int, queue: str, rows: Iterable[Row], items: Sequence[Item]
    ) -> dict[int, Settled]:
        """Settles `rows`, then `items`. Returns the results of those that were not settled, by their number."""
        keys, today = self._keys, datetime.datetime.now(datetime.timezone.utc).date()
        numbers: dict[str, int] = {}  # of the keys that this call needs beside the fixed ones

        def number_of(key: str) -> int:
            return numbers.setdefault(key, len(numbers) + 1)

        arguments: list[Argument] = [number, queue, *self._dead_limits, DAY_COUNTER_LIFE_S, RECEIPT_LIFE_S]
        for row in rows:
            word, how = ("large", secrets.token_hex(16)) if row.large else ("row", row.places)
            place = number_of(keys.inprogress(queue, row.owner)), 1 if row.newest_first else -1
            arguments += (word, *place, how, len(row.deliveries), *row.payloads)
        for item in items:
            what, score, rewritten = _readable(item.target, queue)
            place = number_of(keys.inprogress(queue, item.owner)), 1 if item.newest_first else -1
            effects = list(encode(item.effects, keys, number_of))
            arguments += (what, *place, item.payload, score, rewritten, len(effects), *effects)
        fixed = (
            keys.queue(queue), keys.retry, keys.dead, keys.queues,
            keys.processed, keys.failed, keys.processed_on(today), keys.failed_on(today), keys.receipt(settler),
            keys.schedule, keys.nothing,
        )  # fmt: skip
        answer = self._connections.script(_SETTLE, (*fixed, *numbers), arguments)
        errors = self._explained(answer[1::2]) if answer else {}
        return {
            at - 1: False if result == 0 else errors[result]
            for at, result in zip(answer[::2], answer[1::2], strict=True)
        }

    def _explained(self, results: Sequence[int | bytes]) -> dict[int | bytes, str]:
        """The error texts among the results of the script, each with its text in our words."""
        return {told: self._connections.explained(_SETTLE, text(told)) for told in results if isinstance(told, bytes)}


def _readable(target: Target, queue: str) -> Target:
    """Ruby reads the sets too, so no payload that Ruby cannot read goes there as it is. A retry or a dead job with such
    a payload goes to the dead set, enclosed as text; a scheduled one goes to the back of its queue."""
    what, _, payload = target
    if what not in ("retry", "schedule", "dead"):
        return target
    readable = enclosure.readable(payload, queue, time.time())
    if readable is payload:
        return target
    return ("back", 0, payload) if what == "schedule" else ("dead", 0, readable)
