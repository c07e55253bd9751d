"""The batches in the state of a memory broker, and the verbs of `features.batches.contract` on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import field

from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.brokers.memory.parts import Decision, MemoryPart, TieInMemory
from goworkers_py.brokers.memory.published_push import PublishedPush
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.effect import KEPT_S
from goworkers_py.core.values import dataclass
from goworkers_py.features.batches import payload as wire
from goworkers_py.features.batches.batch import (
    EVENTS,
    MOST_DEATHS,
    BatchStatus,
    BatchTie,
    Callback,
    Death,
    Event,
    NewBatch,
    Way,
    line_of,
    parent_of,
)
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.cancelling.memory import TombstoneTable
from goworkers_py.wire import payload


@dataclass(slots=True)
class _Batch:
    new: NewBatch
    at: float
    expires_at: float
    callbacks: dict[Event, Callback]
    holds: dict[str, bool]  # False: it has ended
    # The numbers of the pushes that have joined, and the names of the batches inside. As a set it counts a push once,
    # however often it is asked.
    members: set[int | str] = field(default_factory=set)
    ended: dict[Way, int] = field(default_factory=dict)
    ended_at: float | None = None
    stopped: bool = False
    late: set[str] = field(default_factory=set)  # the jobs and batches whose failures came too late to be counted
    deaths: deque[bytes] = field(default_factory=lambda: deque(maxlen=MOST_DEATHS))

    def count(self, way: Way) -> int:
        return self.ended.get(way, 0)

    @property
    def pending(self) -> int:
        return len(self.members) - sum(self.ended.values())

    @property
    def succeeded(self) -> bool:
        return self.count("succeeded") == len(self.members)


class BatchTable(MemoryPart):
    """Used under the lock of the state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._batches: dict[str, _Batch] = {}
        self.ties = {BatchTie: TieInMemory(self._decide, self._take)}
        self.effects = {EndInBatch: self._end_job}

    def _decide(self, tie: BatchTie, published: PublishedPush) -> Decision | None:
        """A push that insists happens without its batch where that was closed by force."""
        if self.takes(tie.bid, published.number) or (published.insists and not self.is_stopped(tie.bid)):
            return None
        return Decision(Published.REFUSED)

    def _take(self, tie: BatchTie, published: PublishedPush) -> None:
        self.join(tie.bid, published.number)

    def _end_job(self, effect: EndInBatch) -> None:
        self.end(effect.member.bid, effect.way, effect.name, effect.death)

    def open(self, new: NewBatch) -> bool:
        bid, now = new.member.bid, self._state.clock()
        if self._get(bid) is not None:
            return True
        if not self._takes_jobs(parent_of(bid)):
            return False
        self._batches = {bid: batch for bid, batch in self._batches.items() if batch.expires_at > now}
        self._batches[bid] = _Batch(new, now, now + KEPT_S, dict(new.callbacks), {new.hold: True})
        if (parent := self._get(parent_of(bid))) is not None:
            parent.members.add(bid)
        self._keep(bid)
        return True

    def takes(self, bid: str, number: int) -> bool:
        """Whether the push with this number may join, or has joined."""
        batch = self._get(bid)
        return batch is not None and (number in batch.members or self._takes_jobs(bid))

    def is_stopped(self, bid: str) -> bool:
        """Whether the batch, or one around it, was cancelled."""
        around = [self._get(batch_id) for batch_id in line_of(bid)]
        return any(batch is not None and batch.stopped for batch in around)

    def is_open(self, bid: str) -> bool:
        """Whether the batch itself takes jobs, whatever those around it do."""
        batch = self._get(bid)
        return batch is not None and batch.ended_at is None and not batch.stopped

    def join(self, bid: str, number: int) -> None:
        if (batch := self._get(bid)) is not None and batch.ended_at is None:
            batch.members.add(number)
            self._keep(bid)

    def hold(self, bid: str, hold: str) -> bool:
        if not bid or not self._takes_jobs(bid):
            return False
        self._batches[bid].holds.setdefault(hold, True)  # a late copy of a call holds nothing
        self._keep(bid)
        return True

    def let_go(self, bid: str, hold: str, late: bool) -> None:
        if (batch := self._get(bid)) is not None and batch.ended_at is None:
            batch.holds.pop(hold, None)
            if late:
                batch.holds[hold] = False
            self._end_if_done(bid, batch)

    def cancel(self, bid: str) -> bool:
        batch = self._get(bid)
        if batch is None or batch.ended_at is not None:
            return False
        batch.stopped = True
        batch.holds = dict.fromkeys(batch.holds, False)
        self._state.part(TombstoneTable).lay(bid, retry=False, many=True)
        self._end_if_done(bid, batch)
        return True

    def close(self, bid: str, force: bool) -> bool:
        batch = self._get(bid)
        if batch is None or batch.ended_at is not None:
            return False
        batch.holds = dict.fromkeys(batch.holds, False)
        self._end_if_done(bid, batch, force)
        return True

    def end(self, bid: str, way: Way, name: str, death: bytes = b"") -> None:
        """Counts the end of a job, and the ends of the batches that end by that. `name`: the jid of a job that
        people may retry by hand."""
        batch = self._get(bid)
        if batch is None:
            return
        if way == "revived":
            self._revive(bid, batch, name)
        elif batch.pending < 1 or batch.ended_at is not None:
            if way == "failed" and name:
                batch.late.add(name)
        else:
            batch.ended[way] = batch.count(way) + 1
            batch.expires_at = self._state.clock() + KEPT_S
            self._keep(parent_of(bid))
            if death:
                batch.deaths.appendleft(death)
            if way == "failed":
                self._push(bid, batch, "death")
            self._end_if_done(bid, batch)

    def status(self, bid: str) -> BatchStatus | None:
        batch = self._get(bid)
        if batch is None:
            return None
        new = batch.new
        return BatchStatus(
            bid,
            new.name,
            batch.at,
            len(batch.members),
            batch.count("succeeded"),
            batch.count("failed"),
            batch.count("cancelled"),
            batch.count("expired"),
            sum(batch.holds.values()),
            ended_at=batch.ended_at,
            stopped=batch.stopped,
            waiting_for=[] if batch.stopped else [event for event in EVENTS if event in batch.callbacks],
            to=new.member.to,
        )

    def deaths(self, bid: str) -> list[bytes]:
        batch = self._get(bid)
        return [] if batch is None else list(batch.deaths)

    def entries(self) -> list[BatchStatus]:
        bids = sorted(self._batches, key=lambda bid: self._batches[bid].expires_at, reverse=True)
        return [status for bid in bids if (status := self.status(bid)) is not None]

    def _get(self, bid: str) -> _Batch | None:
        batch = self._batches.get(bid)
        return batch if batch is not None and batch.expires_at > self._state.clock() else None

    def _keep(self, bid: str) -> None:
        """An event of a batch is one of those around it too."""
        for batch_id in line_of(bid):
            if self.is_open(batch_id):
                self._batches[batch_id].expires_at = self._state.clock() + KEPT_S

    def _takes_jobs(self, bid: str) -> bool:
        around = [self._get(batch_id) for batch_id in line_of(bid)] if bid else []
        return all(batch is not None and batch.ended_at is None and not batch.stopped for batch in around)

    def _end_if_done(self, bid: str, batch: _Batch, force: bool = False) -> None:
        if batch.ended_at is not None or not (force or (batch.pending < 1 and not any(batch.holds.values()))):
            return
        batch.ended_at = now = self._state.clock()
        self._push(bid, batch, "complete")
        if batch.succeeded:
            self._push(bid, batch, "success")
        if batch.stopped and batch.pending < 1:
            self._state.part(TombstoneTable).remove(bid)
        batch.expires_at = now + max(batch.new.retain_s, KEPT_S if batch.count("failed") else 1)
        self.end(parent_of(bid), _way(batch), bid)

    def _revive(self, bid: str, batch: _Batch, name: str) -> None:
        if name in batch.late:
            batch.late.discard(name)
            return
        if not batch.count("failed"):
            return
        batch.ended["failed"] -= 1
        batch.ended["succeeded"] = batch.count("succeeded") + 1
        if batch.ended_at is not None and batch.succeeded and not batch.stopped:
            self._push(bid, batch, "success")
            batch.expires_at = self._state.clock() + max(1, batch.new.retain_s)
            self.end(parent_of(bid), "revived", bid)

    def _push(self, bid: str, batch: _Batch, event: Event) -> None:
        if event not in batch.callbacks or self.is_stopped(bid):
            return
        callback = batch.callbacks.pop(event)
        now = self._state.clock()
        stamp = {"enqueued_at": int(now * 1000) if batch.new.milliseconds else now}
        self._state.put(callback.queue, payload.splice(callback.payload, stamp))


def _way(batch: _Batch) -> Way:
    if batch.stopped:
        return "cancelled"
    return "succeeded" if batch.succeeded else "failed" if batch.count("failed") else "cancelled"


class MemoryBatches(Batches):
    def __init__(self, state: State) -> None:
        self._table = state.part(BatchTable)
        self._lock = state.lock

    def open(self, new: NewBatch) -> bool:
        with self._lock:
            return self._table.open(new)

    def hold(self, bid: str, hold: str) -> bool:
        with self._lock:
            return self._table.hold(bid, hold)

    def let_go(self, bid: str, hold: str, to: Sequence[str] = (), late: bool = False) -> None:
        with self._lock:
            self._table.let_go(bid, hold, late)

    def cancel(self, bid: str, to: Sequence[str] = ()) -> bool:
        with self._lock:
            return self._table.cancel(bid)

    def close(self, bid: str, to: Sequence[str] = (), force: bool = False) -> bool:
        with self._lock:
            return self._table.close(bid, force)

    def status(self, bid: str) -> BatchStatus | None:
        with self._lock:
            return self._table.status(bid)

    def deaths(self, bid: str) -> list[Death]:
        with self._lock:
            return wire.deaths(self._table.deaths(bid))

    def entries(self) -> Iterator[BatchStatus]:
        with self._lock:
            return iter(self._table.entries())
