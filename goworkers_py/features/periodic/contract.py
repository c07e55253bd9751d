"""The schedules of periodic jobs. Any number of processes look at the clock, and each slot fires once.

A process registers the schedules of its code every few seconds, and gets the state of each. From the state it finds the
slots that are due, by the broker's clock, and asks for each of them to be fired. A state has a number, which grows with
each change, of a process or of people. A firing names the number of the state that it was made from: so of all
processes that ask for one slot, only the first changes anything. No process is elected.

A source is an application. Its schedules have names of their own, and no other source is touched. A generation is its
release: while a newer one is known, registered within a day, an older one neither registers nor fires, and a schedule
that the newer one has not does not fire. Within one generation, schedules of one name may differ, as in a deploy
without generations: the one that came last is in force, as long as a process registers it.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb but `ask` may be called again after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from goworkers_py.features.periodic.schedule import (
    Firing,
    FiringResult,
    ForeignSchedule,
    HistoryEntry,
    Registered,
    Release,
    Schedule,
    ScheduleRecord,
)

# A schedule that no process has registered for so long is not in force, if a process registers another release of it.
STALE_S = 60.0
# After so long, a release that no process registers is forgotten: it is a new one, if it comes again.
FORGOTTEN_S = 86_400
# A schedule that nobody registers is kept for so long, with its history. No job waits for that: it is not KEPT_S.
LIFE_S = 90 * 86_400
# By a smaller step back of the broker's clock no slot fires twice. After a larger one no slot waits for the old time.
BACK_S = 3_600
# So many firings of each schedule are in its history.
MOST_FIRINGS = 100


class Periodic(Protocol):
    """Threads share it."""

    def register(self, release: Release, schedules: Sequence[Schedule]) -> Registered:
        """Tells that a process has these schedules in its code. Returns the state of each, in order; or the `newer`
        generation, and then nothing was changed.

        A schedule that was not known begins now: slots from now on fire. So does one whose rule is another from now on,
        and one whose last slot is further ahead than BACK_S, because the clock has gone back.
        """

    def fire(self, release: Release, firing: Firing) -> FiringResult:
        """Settles a slot, in one step: its job is pushed, if there is one, the slot is the last one of its schedule,
        and the history tells it. With `asked`, a demand of people is settled instead of a slot.

        CHANGED, and nothing happens, when the state has another number, the schedule is paused (not so for a demand),
        or the generation is not the newest any more. EARLY when the slot is not due by the broker's clock.

        When another job holds the lock of the push, and the lock says `skip` or `raise`: CHANGED with the holder; with
        `skips` the slot is settled without a push. The holder `instead_of` does not count.
        """

    # --- for people

    def records(self) -> list[ScheduleRecord]:
        """Every schedule, by source and name, also those that no process has in its code any more."""

    def history(self, source: str, name: str) -> list[HistoryEntry]:
        """The last firings, the newest first."""

    def pause(self, source: str, name: str) -> bool:
        """No slot fires from now on. False when there is no such schedule, or it is paused."""

    def resume(self, source: str, name: str) -> bool:
        """Slots from now on fire again. False when there is no such schedule, or it is not paused."""

    def override(self, source: str, name: str, text: bytes) -> bool:
        """From now on these fields count instead of those of the code; empty: those of the code again. Slots from now
        on fire. False when there is no such schedule."""

    def ask(self, source: str, name: str) -> bool:
        """Asks for one firing now, beside the slots. False when there is no such schedule."""

    def forget(self, source: str, name: str) -> bool:
        """Forgets a schedule and its history. A process that has it in its code registers it anew. False when there is
        none."""

    def foreign(self) -> list[ForeignSchedule]:
        """The schedules that other programs of the fleet fire."""
