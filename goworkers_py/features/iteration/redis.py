"""The cursors of iterable jobs in Redis, in the keys of Sidekiq 7.3. Their last one is written by
lua/fragments/cursor_effects.lua."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script, text
from goworkers_py.brokers.redis.driver.replies import list_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.iteration.contract import Iterations
from goworkers_py.features.iteration.cursor import CURSOR_LIFE_S, Cursor, Iteration
from goworkers_py.features.iteration.redis_part import LUA, iteration_key

# The version of what we write into the key. Also in cursor_effects.lua.
V = "1"

_BEGIN = Script(LUA / "begin_iteration.lua", list_of(bytes))
_CHECKPOINT = Script(LUA / "checkpoint.lua", lambda reply: reply in (0, 1))


class RedisIterations(Iterations):
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def begin(self, jid: str, of: str) -> Iteration:
        flat = self._connections.script(_BEGIN, [iteration_key(self._keys, jid)], [V, CURSOR_LIFE_S, of])
        return _read({text(name): text(value) for name, value in zip(flat[::2], flat[1::2], strict=True)})

    def checkpoint(self, jid: str, cursor: Cursor) -> bool:
        arguments = (cursor.run, cursor.value, f"{cursor.runtime_s:.3f}", CURSOR_LIFE_S, cursor.of)
        stored: int = self._connections.script(_CHECKPOINT, [iteration_key(self._keys, jid)], arguments)
        return stored == 1


def _read(fields: Mapping[str, str]) -> Iteration:
    cancelled = "cancelled" in fields
    if fields.get("v") != V or fields.get("py") != fields.get("ex"):
        return Iteration(Cursor(0, "null", 0.0), cancelled, foreign=True)
    cursor = Cursor(int(fields["ex"]), fields.get("c", "null"), _seconds(fields.get("rt", "")), fields.get("of", ""))
    return Iteration(cursor, cancelled)


def _seconds(runtime: str) -> float:
    try:
        return float(runtime)
    except ValueError:
        return 0.0
