"""The owner of the places of blocks of code, whether or not jobs run in this process.

It is registered as an owner of blocks, with a lease, before its first block takes a place, and until its last place is
free. Recoverers of daemons declare it dead as they do with processes; where no daemon runs, a block that waits for the
place does, see `Limit.acquire`.
"""

from __future__ import annotations

import atexit
import collections
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from goworkers_py.brokers.contracts.recoverable import DeclaredDead, Presence, Recoverable
from goworkers_py.core import machine
from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.core.identity import new_identity
from goworkers_py.core.strikes import Lock
from goworkers_py.runtime.alive.heartbeat import FORGOTTEN_AFTER_S
from goworkers_py.runtime.alive.lease import Lease
from goworkers_py.runtime.alive.steadiness import Steadiness
from goworkers_py.runtime.service import Service

if TYPE_CHECKING:
    from goworkers_py.core.timing import Timing

log = logging.getLogger(__name__)

KEEPER = "limit blocks"  # the name of its thread
# A place that could not be freed is tried again after so long.
FREED_EVERY_S = 1.0
# How long the end of the process waits for the broker, to free places that are left.
AT_EXIT_S = 2.0


class BlockOwner:
    """Threads share it."""

    def __init__(self, recoverable: Callable[[], Recoverable], timing: Callable[[], Timing]) -> None:
        self._recoverable = recoverable
        self._timing = timing
        self._lock = Lock()
        self._keeper: BlockKeeper | None = None  # changed under the lock, with its `blocks`

    @contextmanager
    def present(self) -> Iterator[BlockKeeper]:
        """The keeper of the lease, which lasts through the block."""
        keeper = self._enter()
        try:
            yield keeper
        finally:
            if self._ends(keeper, leaves=True):
                keeper.stop()
                keeper.join(Deadline(1.0))

    def _enter(self) -> BlockKeeper:
        if (keeper := self._entered()) is not None:
            return keeper
        # It beats without the lock: a child that is forked meanwhile has a copy of the lock, and other blocks end.
        fresh = BlockKeeper(self._recoverable, self._timing(), self._ends)
        fresh.beat()
        keeper = self._entered(fresh)
        if keeper is not fresh:  # another thread was quicker
            fresh.leave_fleet()
        assert keeper is not None
        return keeper

    def _entered(self, fresh: BlockKeeper | None = None) -> BlockKeeper | None:
        """One block more for the keeper of this process, which is `fresh` where it has none."""
        with self._lock:
            if self._keeper is None or self._keeper.pid != os.getpid():  # a forked child is another owner
                if fresh is not None:
                    fresh.start()
                self._keeper = fresh
            if self._keeper is not None:
                self._keeper.blocks += 1
            return self._keeper

    def _ends(self, keeper: BlockKeeper, leaves: bool = False) -> bool:
        """Whether the keeper has nothing to do any more. No block enters it then."""
        with self._lock:
            keeper.blocks -= leaves
            if keeper.blocks or keeper.left:
                return False
            if self._keeper is keeper:
                self._keeper = None
            return True


class BlockKeeper(Service):
    """Keeps the lease of the owner, and frees the places that a block could not free. It ends when no block is left and
    every place is free."""

    def __init__(
        self, recoverable: Callable[[], Recoverable], timing: Timing, ends: Callable[[BlockKeeper], bool]
    ) -> None:
        super().__init__(KEEPER)
        self.pid = os.getpid()
        self.blocks = 0  # under the lock of the owner
        self.left = collections.deque[Callable[[], None]]()  # blocks append, this thread removes
        self.lease = Lease(timing.lease_fresh_s)
        self._recoverable = recoverable
        self._timing = timing
        self._ends = ends
        self._steadiness = Steadiness(self.lease)
        self._asked = machine.Event()

    def declare_dead(self, owners: set[str]) -> None:
        """Declares those of these owners dead that are so by the same rule as the processes that a recovery finds
        dead."""
        owners -= {"", self.lease.identity}
        if owners:
            proof = self._steadiness.proof(self._timing.steady_for_s)
            self._recoverable().declare_dead(self.lease.identity, proof, owners)

    def leave(self, leave: Callable[[], None]) -> None:
        """Frees the place of a block. Where the broker cannot do it now, this keeper goes on until it has done it: the
        place is that of a living owner, and nobody else frees it."""
        if self.pid != os.getpid():
            return  # the place of the process from which this one was forked
        try:
            leave()
        except BaseException:
            self.left.append(leave)
            self._asked.set()
            atexit.register(self._at_exit)
            raise

    def _at_exit(self) -> None:
        if self.pid != os.getpid():
            return
        self.stop()
        self.join(Deadline(AT_EXIT_S))

    def wake(self) -> None:
        self._asked.set()

    def run(self) -> None:
        while not self.stopping.is_set():
            self._asked.wait(FREED_EVERY_S if self.left else self._timing.beat_every_s)
            self._asked.clear()
            with suppress(BrokerError):  # the next one may succeed
                if not self.stopping.is_set():
                    self.beat()
                self._free_left()
            if self._ends(self):
                break
        atexit.unregister(self._at_exit)
        if not self.left:
            self.leave_fleet()

    def _free_left(self) -> None:
        """One that the broker refuses to free holds up no other."""
        for leave in [*self.left]:
            try:
                leave()
            except BrokerRefused:
                continue
            self.left.remove(leave)

    def leave_fleet(self) -> None:
        with suppress(BrokerError):  # else its lease ends
            self._recoverable().end_blocks(self.lease.identity)

    def beat(self) -> None:
        asked_at, identity = machine.awake_and_asleep(), self.lease.identity
        since = self._steadiness.before()
        try:
            if self.lease.silent_s > FORGOTTEN_AFTER_S:
                raise DeclaredDead(identity)
            answer = self._recoverable().beat(Presence(identity, {}, blocks=True))
        except DeclaredDead:
            self.lease.lapse()  # from here on no block takes a place
            born = new_identity()
            answer = self._recoverable().beat(Presence(born, {}, blocks=True))
            self.lease.replace(born)
            log.error(
                "lease of %s expired and the places of its blocks were freed: a block that still runs counts no more "
                "in its limit; continuing as %s", identity, born,
            )  # fmt: skip
        self.lease.confirm(asked_at)
        self._steadiness.after(since, answer, identity)
