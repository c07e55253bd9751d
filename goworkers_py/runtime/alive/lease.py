"""The lease of this process: its identity, and whether the broker renewed it lately."""

from __future__ import annotations

import math

from goworkers_py.core import machine
from goworkers_py.core.fence import Fence
from goworkers_py.core.identity import new_identity

LOOK_EVERY_S = 0.02


class Lease:
    """Changed by the thread that beats, one at a time (see `Heartbeat.beat`), by single assignments. Every thread reads
    it without a lock."""

    def __init__(self, valid_s: float) -> None:
        self.identity = new_identity()
        self._valid_s = valid_s
        self._fresh_until = -math.inf
        self._confirmed_at = math.inf  # when the last answered beat was sent; `lapse` does not change it

    def confirm(self, asked_at: float) -> None:
        """The broker renewed the lease by a beat that was sent at `asked_at`, on the clock `awake_and_asleep`."""
        self._confirmed_at = asked_at
        self._fresh_until = asked_at + self._valid_s

    @property
    def fresh(self) -> bool:
        """False when the broker may have declared this process dead by now."""
        return machine.awake_and_asleep() < self._fresh_until

    @property
    def silent_s(self) -> float:
        """Seconds since the last answered beat was sent; 0 before the first one."""
        return max(0.0, machine.awake_and_asleep() - self._confirmed_at)

    def lapse(self) -> None:
        """The identity was declared dead: the lease is not fresh until the next `confirm`."""
        self._fresh_until = -math.inf

    def replace(self, identity: str) -> None:
        """The old identity is never used again."""
        self.identity = identity

    def surely_of(self, owner: str) -> bool:
        """True when `owner` is certainly still the identity of this process. Asked for every job, so without a lock.

        The worker's thread reads `_fresh_until` first and `identity` second. If the thread that beats replaces
        `identity` in between, the second comparison fails. In the other order the old identity would be compared, and
        then the new identity's lease be found fresh.
        """
        return machine.awake_and_asleep() < self._fresh_until and self.identity == owner

    def await_confirmation(self, owner: str, timeout_s: float) -> bool:
        """Waits until a beat shows whether `owner` still is this process; False when it is not, or at the time limit.

        A process that was frozen for long holds deliveries that may have been recovered meanwhile.
        """
        give_up_at = machine.monotonic() + timeout_s
        while not self.fresh and self.identity == owner and machine.monotonic() < give_up_at:
            machine.sleep(LOOK_EVERY_S)  # no Condition: an exception in its `wait` could leave its lock locked
        return self.surely_of(owner)


class FencedLease(Lease):
    """The lease of a process behind a fence: it is fresh while the term lasts."""

    def __init__(self, valid_s: float, fence: Fence) -> None:
        super().__init__(valid_s)
        self._fence = fence

    @property
    def fresh(self) -> bool:
        return self._fence.holds and super().fresh

    def surely_of(self, owner: str) -> bool:
        return self._fence.holds and super().surely_of(owner)
