"""Calls with which runs begin and end, and which do harm when a copy of them arrives late: the connection was cut while
the call was on its way, the process went on, and the server gets the first copy when the job has ended.

Each call says how many of them had no answer before it. The server keeps the highest number for each identity, and a
call with a lower one changes nothing, see lua/fragments/late.lua.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, Script
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.settlement import RECEIPT_LIFE_S
from goworkers_py.core.errors import BrokerRefused


class BeginCalls:
    """Threads share it."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys
        # One entry for each call that had no answer. Any thread appends, and asks for the length, in one step: an
        # exception may be thrown into a worker here, so no lock.
        self._unanswered: list[None] = []

    def call(self, script: Script, identity: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """The script gets the key of the number before the other keys, and the number and its life before the other
        arguments."""
        names = self._keys.receipt(f"begin:{identity}"), *keys
        while True:
            try:
                numbered = len(self._unanswered), RECEIPT_LIFE_S, *arguments
                answer = self._connections.script(script, names, numbered)
            except BrokerRefused:
                raise
            except BaseException:  # the server may still get what was sent, and much later
                self._unanswered.append(None)
                raise
            if not isinstance(answer, list) or not answer or answer[0] != b"late":
                return answer
            # Other threads had no answer meanwhile.
            self._unanswered.extend([None] * (answer[1] - len(self._unanswered)))
