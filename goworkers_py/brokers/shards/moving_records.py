"""The record of a tracked job that moves to the shard of its limit: it lives where the job is.

Its states are written in the steps in which the job is settled, on the shard of the job. So the record that its push
has made on the home of its jid would say "waiting" for ever. Each of these steps may be asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from goworkers_py.brokers.contracts.transport import Batch, Push
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import NoteState, Tracked
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.outcome import Requeue
from goworkers_py.wire.job_record import LIVE_S, tracked_in

REASON = "moved to the shard of its limit"


class MovingRecords:
    """One thread uses it."""

    def __init__(self) -> None:
        self._settler, self._number = f"records:{machine.token_hex(6)}", 0

    def copy(self, pushes: Sequence[Push], source: Shard, goal: Shard) -> list[Tracked]:
        """Makes records at the goal, before the jobs come there. Returns the jobs whose records on `source` are to be
        dropped when they have. A record of this very move stays: another relay has made it, and the job may run."""
        if source is goal:  # the list of shards has changed
            return []
        tracked = ((push, job) for push in pushes if (job := tracked_in(push.payload)) is not None)
        return [job for push, job in tracked if self._copied(push, job, source, goal)]

    def _copied(self, push: Push, job: Tracked, source: Shard, goal: Shard) -> bool:
        move = push.id.rpartition("#")[2]
        with suppress(BrokerRefused):  # a record that is damaged holds up no job
            if source.ask(lambda broker: broker.store.record(job.jid)) is None:
                return False
            there = goal.ask(lambda broker: broker.store.record(job.jid))
            if there is None or there.moved_by != move:
                fields = (("queue", push.queue), ("moved_by", move))
                self._note(goal, NoteState(job, "waiting", REASON, LIVE_S, fields))
            return True
        return False

    def drop(self, moved: Sequence[Tracked], source: Shard) -> None:
        for job in moved:
            self._note(source, NoteState(job, "waiting", REASON, 0, only_known=True))

    def _note(self, shard: Shard, state: NoteState) -> None:
        self._number += 1
        nothing = Delivery(b"", "", "")  # only the effect happens
        batch = Batch(self._settler, self._number, [(nothing, Requeue(effects=(state,)))])
        shard.ask(lambda broker: broker.store.apply(batch))
