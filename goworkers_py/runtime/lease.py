"""Whether the broker was told lately that this process lives, and under which identity."""

from __future__ import annotations

import math
import time

from goworkers_py.core.clock import awake_and_asleep
from goworkers_py.core.identity import new_identity

LOOK_EVERY_S = 0.02


class Lease:
    """The identity in use, and whether the server was told lately that its process lives.

    Changed by whoever beats, one at a time, in single assignments; read by every thread, without a lock.
    """

    def __init__(self, valid_s: float) -> None:
        self.identity = new_identity()
        self._valid_s = valid_s
        self._fresh_until = -math.inf
        self._told_at = math.inf  # when the server was told last, also after `lapse`

    def confirm(self, asked_at: float) -> None:
        """The server renewed the lease; the question left at `asked_at` on `awake_and_asleep`."""
        self._told_at = asked_at
        self._fresh_until = asked_at + self._valid_s

    @property
    def fresh(self) -> bool:
        """False when the server may have declared this process dead by now."""
        return awake_and_asleep() < self._fresh_until

    @property
    def silent_s(self) -> float:
        """How long ago the server was told; 0 when it never was."""
        return max(0.0, awake_and_asleep() - self._told_at)

    def lapse(self) -> None:
        """The identity was declared dead."""
        self._fresh_until = -math.inf

    def replace(self, identity: str) -> None:
        """The old identity is never used again."""
        self.identity = identity

    def surely_of(self, owner: str) -> bool:
        """Whether `owner` is known to be this process, still. On every job's path, so without the lock.

        First the time, then the name: an identity that is replaced in between is another by the second look. In the
        other order the old name would be found good by the freshness of the new one.
        """
        return awake_and_asleep() < self._fresh_until and self.identity == owner

    def await_word(self, owner: str, timeout_s: float) -> bool:
        """Waits until it is known whether `owner` still is this process; False when it is not, or at the time limit.

        Whoever was frozen for long finds jobs in its hands that may have been given to others meanwhile.
        """
        give_up_at = time.monotonic() + timeout_s
        while not self.fresh and self.identity == owner and time.monotonic() < give_up_at:
            time.sleep(LOOK_EVERY_S)  # not on a lock, which an exception thrown into this thread could leave locked
        return self.surely_of(owner)
