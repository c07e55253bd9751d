"""The owner of the places of blocks of code: an identity of its own, with a lease, whether or not jobs run here."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from goworkers_py.brokers.contracts.limits import Limits
from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.identity import new_identity
from goworkers_py.runtime.service import Service

# After a kill, the places of blocks are free after so long. A process that stands still for longer loses them too.
LEASE_S = 15
RENEWED_EVERY_S = 4.0


class BlockOwner:
    """Threads share it. The lease is kept while there are blocks."""

    def __init__(self, limits: Callable[[], Limits]) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        # Changed under the lock.
        self._blocks = 0
        self._keeper: _LeaseKeeper | None = None
        self._pid = 0

    @contextmanager
    def present(self) -> Iterator[str]:
        """The identity of the owner, whose lease lasts through the block."""
        keeper = self._enter()
        try:
            yield keeper.identity
        finally:
            self._leave(keeper)

    def leave_place(self, leave: Callable[[], None]) -> None:
        """Where the broker cannot do it now, the keeper does it later: else the blocks that wait for this place would
        keep its lease."""
        try:
            leave()
        except BaseException:
            with self._lock:
                if self._keeper is not None:
                    self._keeper.left.append(leave)
            raise

    def _enter(self) -> _LeaseKeeper:
        with self._lock:
            if self._keeper is None or self._pid != os.getpid():  # a forked child is another owner
                keeper = _LeaseKeeper(self._limits)
                keeper.keep()
                keeper.start()
                self._keeper, self._blocks, self._pid = keeper, 0, os.getpid()
            self._blocks += 1
            return self._keeper

    def _leave(self, keeper: _LeaseKeeper) -> None:
        with self._lock:
            if self._keeper is not keeper:
                return
            self._blocks -= 1
            if self._blocks:
                return
            self._keeper = None
        keeper.stop()
        keeper.join(Deadline(1.0))


class _LeaseKeeper(Service):
    def __init__(self, limits: Callable[[], Limits]) -> None:
        super().__init__("limit blocks")
        self.identity = new_identity()
        self._limits = limits
        self.left = collections.deque[Callable[[], None]]()

    def keep(self) -> None:
        self._limits().keep_owner(self.identity, LEASE_S)

    def run(self) -> None:
        while not self.stopping.wait(RENEWED_EVERY_S):
            with suppress(BrokerError):  # the next one may succeed
                self.keep()
                while self.left:
                    self.left[0]()
                    self.left.popleft()
