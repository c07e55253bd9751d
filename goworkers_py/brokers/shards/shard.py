"""One shard, and whether it is away.

A shard is away from the first verb that it could not serve on. From then on no thread asks it: a server that hangs
would hold up the thread, and with it the work of the other shards. One thread of its own, the probe, asks the shard now
and then until it serves again. The outage is one error line at its beginning and one line at its end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TypeVar

from goworkers_py.brokers.broker import Broker
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerUnavailable, BrokerUnreachable, LeaseGone
from goworkers_py.core.strikes import Lock

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 3.0
# An outage that begins so soon after the last one is the same one: it is told once, and its pauses go on to grow.
SAME_OUTAGE_S = 5.0


class Shard:
    """Any thread asks it."""

    def __init__(self, number: int, name: str, broker: Broker) -> None:
        self.number = number
        self.name = name
        self.broker = broker
        self.away = False  # set under the lock, read without it
        self.on_return: Callable[[], None] = lambda: None  # called by the probe's thread
        self._lock = Lock()
        self._pid = os.getpid()
        self._probe: machine.Thread | None = None  # under the lock, as the next five
        self._closed = machine.Event()
        self._began = self._ended = -SAME_OUTAGE_S
        self._failures = 0
        self._told = self._told_of_moves = False
        self._when_back: list[Callable[[], None]] = []

    def ask(self, verb: Callable[[Broker], T]) -> T:
        """Raises BrokerUnreachable at once while the shard is away."""
        if self.away:
            self._forget_parent()
            if self.away:
                raise BrokerUnreachable(f"shard {self.name} is away")
        try:
            return verb(self.broker)
        except BrokerUnavailable as error:
            self.failed(error)
            raise

    def failed(self, error: BrokerError) -> None:
        """A verb has failed. A server that is full, or has no lease, serves all the same."""
        if isinstance(error, BrokerFull | LeaseGone) or not isinstance(error, BrokerUnavailable):
            return
        self._forget_parent()
        with self._lock:
            if self.away or self._closed.is_set():
                return
            self.away, self._began = True, machine.monotonic()
            if self._began - self._ended >= SAME_OUTAGE_S:
                self._failures, self._told, self._told_of_moves = 0, True, False
                log.error(
                    "shard %s cannot serve: %s; the other shards go on, and it is tried again until it does: "
                    "start its server", self.name, error
                )  # fmt: skip
            self._probe = machine.Thread(target=self._until_it_serves, name=f"probe:{self.name}", daemon=True)
            self._probe.start()

    def when_back(self, call: Callable[[], None]) -> Callable[[], None]:
        """Calls it once, in the probe's thread, when the shard serves again; at once when it serves. Returns the
        function that takes this back."""
        with self._lock:
            if away := self.away:
                self._when_back.append(call)
        if not away:
            call()
        return lambda: self._not_when_back(call)

    def _not_when_back(self, call: Callable[[], None]) -> None:
        with self._lock:
            if call in self._when_back:
                self._when_back.remove(call)

    def tell_of_moves(self) -> None:
        """Plain jobs whose home this is are pushed to other shards: told once in an outage."""
        with self._lock:
            told, self._told_of_moves = self._told_of_moves, True
        if not told:
            log.warning("shard %s is away: jobs that belong there are pushed to the other shards meanwhile", self.name)

    def _until_it_serves(self) -> None:
        while not self._closed.wait(self._pause_s()):
            try:
                self.broker.transport.paused()
            except BrokerError:
                continue
            self._returned()
            return

    def _pause_s(self) -> float:
        self._failures += 1
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._failures, 10))
        return machine.random.uniform(longest / 2, longest)

    def _returned(self) -> None:
        with self._lock:
            self.away, self._ended = False, machine.monotonic()
            told, self._told = self._told, False
            calls, self._when_back = self._when_back, []
        if told:
            log.warning("shard %s serves again after %.1f s", self.name, self._ended - self._began)
        self.on_return()
        for call in calls:
            call()

    def _forget_parent(self) -> None:
        """In a forked child: the probe's thread is the parent's, and another thread may have held the lock."""
        if self._pid != os.getpid():
            self._lock, self._pid, self.away, self._when_back = Lock(), os.getpid(), False, []

    def close(self) -> None:
        self._closed.set()
        self.broker.close()
        if self._probe is not None and self._probe is not machine.current_thread():
            self._probe.join(1.0)
