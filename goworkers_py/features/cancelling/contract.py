"""Tombstones: the jobs that are to be cancelled wherever a process meets them.

A cancel writes a tombstone first, so that from then on no process begins the job. Then it removes the job from its
place. A process holds all tombstones in its memory: it is told of a new one at once, and compares now and then. So no
job pays a look at the broker. The process that meets the job settles it with the effect MeetTombstone: in the same step
the tombstone goes, and the caller of the cancel is told how the job has ended.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from goworkers_py.features.cancelling.tombstone import Tombstone

# Called when the tombstones have changed, or may have. It is called in another thread, and must not block.
Changed = Callable[[], None]


class Cancels(Protocol):
    """Threads share it."""

    def ask(self, jid: str, retry: bool) -> object:
        """Leaves a tombstone in place of an older one, tells every process that listens, and returns what `withdraw`
        needs. With `retry` the job is only interrupted, and fails then; where a tombstone without `retry` stands, that
        one stays."""

    def withdraw(self, jid: str, asked: object) -> None:
        """Removes the tombstone for which `ask` has returned `asked`, because the job was removed from its place, or
        has ended. That of another caller stays."""

    def answer(self, jid: str) -> str | None:
        """Returns how a job has ended whose tombstone was met within the last minute: the word of MeetTombstone."""

    def watch(self, jid: str, changed: Callable[[str], None]) -> Callable[[], None]:
        """Calls `changed` soon when the tombstone of this job was met, with the word of MeetTombstone; with an empty
        word when it may have been. Otherwise as `Records.watch`."""

    def stands(self, jid: str) -> bool:
        """Whether there is a tombstone of this job now."""

    def all(self, version: str) -> tuple[str, Mapping[str, Tombstone]] | None:
        """Returns every tombstone by its jid, and their version. None when the version is `version`."""

    def listen(self, changed: Changed) -> Callable[[], None]:
        """Calls `changed` at each new tombstone, from now on. Returns the function that ends it."""

    def elsewhere(self, jids: Collection[str], shown: Collection[str] = ()) -> set[str]:
        """Returns those of these jobs that another program of the fleet has cancelled, in a way of its own. `shown` are
        those of them that the gem sidekiq-status may stop."""

    def ask_sidekiq(self, jid: str) -> bool:
        """Asks the process of Sidekiq that runs this job to end it, as Sidekiq's own `cancel!` does. Only iterable jobs
        obey. Returns whether this one is known to be iterable, which it tells some five seconds after its begin."""
        return False
