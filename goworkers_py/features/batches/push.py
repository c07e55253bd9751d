"""The pushes inside of a block of a batch: each joins the batch. A batch that has ended takes none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from goworkers_py.api.push_part import JobTies, Publish, PushCall, PushPart
from goworkers_py.api.request import PushRequest
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.transport import Published, PublishResult, places_pushed
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BatchEnded
from goworkers_py.features.batches.batch import BatchTie, Membership, line_of
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.joining import joined_now
from goworkers_py.features.batches.payload import BATCH, batch_field, bid_in, outside
from goworkers_py.features.parts import Pushes

log = logging.getLogger(__name__)


class BatchTies(JobTies):
    needs = frozenset({BATCH})

    def __init__(self, member: Membership) -> None:
        self.members = batch_field(member)
        self.shared = BatchTie(member.bid)


class BatchCall(PushCall):
    def publish(self, pushes: Sequence[Push], publish: Publish) -> Sequence[PublishResult]:
        results = publish(pushes)
        if Published.REFUSED in results:
            tie = pushes[results.index(Published.REFUSED)].tie(BatchTie)
            if tie is not None:
                ended = BatchEnded(tie.bid)
                ended.places = places_pushed(results)
                raise ended
        return results


class BatchPushes(PushPart):
    def ties_of(self, asked: PushRequest) -> BatchTies | None:
        joined = joined_now()
        if joined is None:
            return None
        self._broker().require_part(Batches)
        return BatchTies(joined.member)

    def begin(self) -> BatchCall:
        return BatchCall()


def in_no_batch(refused: Sequence[Push], batches: Callable[[], Batches]) -> list[Push]:
    """A job whose batch has ended meanwhile is pushed in no batch; if the batch was cancelled, the job is not pushed.
    Of a batch that the broker has forgotten nobody knows whether it was cancelled: its jobs are pushed, because a job
    must not be lost."""
    tied = [(push, tie.bid) for push in refused if (tie := push.tie(BatchTie)) is not None]
    stopped = {bid for bid in dict.fromkeys(bid for _, bid in tied) if _is_cancelled(batches(), bid)}
    for bid in stopped:
        log.info("batch %s was cancelled: jobs that were held back for it are not pushed", bid)
    late = [(push, bid) for push, bid in tied if bid not in stopped]
    for bid in dict.fromkeys(bid for _, bid in late):
        log.warning("batch %s ended before jobs joined it that were held back: they are pushed in no batch", bid)
    return [replace(push.without_tie(BatchTie), payload=outside(push.payload)) for push, _ in late]


def _is_cancelled(batches: Batches, bid: str) -> bool:
    """Whether the batch, or one around it, was cancelled."""
    around = [batches.status(batch_id) for batch_id in line_of(bid)]
    return any(batch is not None and batch.stopped for batch in around)


def _tie_of_stored(payload: bytes, goes_elsewhere: bool) -> BatchTie | None:
    bid = bid_in(payload)
    return BatchTie(bid) if bid else None


def _refused_late(pushes: Sequence[Push], broker: Callable[[], Broker]) -> Sequence[Push]:
    return in_no_batch(pushes, lambda: broker().require_part(Batches))


PUSHES = Pushes(BatchPushes, tie_of_stored=_tie_of_stored, refused_late=_refused_late)
