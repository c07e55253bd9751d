"""The pushes of tracked jobs: each makes the record of its job, and a jid that has a record is a duplicate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goworkers_py.api.push_part import JobTies, Publish, PushCall, PushPart
from goworkers_py.api.request import PushRequest
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.transport import Published, PublishResult, places_pushed
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import DuplicateJob, PushError
from goworkers_py.features.parts import Pushes
from goworkers_py.features.tracking.contract import Records
from goworkers_py.features.tracking.record import says_tracked, tracked_in
from goworkers_py.features.tracking.tie import RecordTie, record_tie

if TYPE_CHECKING:
    from goworkers_py.admin.job_lookup import JobLookup


class RecordTies(JobTies):
    def tie(self, fields: Mapping[str, Any], goes_elsewhere: bool) -> RecordTie | None:
        return record_tie(fields)


class RecordCall(PushCall):
    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker

    def publish(self, pushes: Sequence[Push], publish: Publish) -> Sequence[PublishResult]:
        results = list(publish(pushes))
        if Published.DUPLICATE not in results or Published.REFUSED in results:
            return results
        duplicate: DuplicateJob | None = None  # raised when the others are pushed
        for at, (push, result) in enumerate(zip(pushes, results, strict=True)):
            if result is not Published.DUPLICATE or (tie := push.tie(RecordTie)) is None:
                continue
            try:
                results[at] = self._publish_again(self._free(push, tie), tie.job.jid, publish)
            except DuplicateJob as error:
                duplicate = duplicate or error
            except PushError as error:
                error.within([at], places_pushed(results))
                raise
        if duplicate is not None:
            duplicate.places = places_pushed(results)
            raise duplicate
        return results

    def hold(self, pushes: Sequence[Push]) -> Sequence[Push]:
        ties = (push.tie(RecordTie) for push in pushes)
        return [push if tie is None else self._free(push, tie) for push, tie in zip(pushes, ties, strict=True)]

    def _publish_again(self, push: Push, jid: str, publish: Publish) -> PublishResult:
        result = publish([push])[0]
        if result is Published.DUPLICATE:  # somebody else was quicker
            raise DuplicateJob(jid, _lookup(self._broker()).status(jid).state)
        return result

    def _free(self, push: Push, tie: RecordTie) -> Push:
        """Raises DuplicateJob while there is a job with the jid of this push. A record does not count if its job is in
        no place any more, because another program has deleted it: the push replaces that record."""
        broker = self._broker()
        records = broker.part(Records)
        if records is None or (record := records.record(tie.job.jid)) is None:
            return push
        status = _lookup(broker).settled_status(record.jid)
        if not status.absent:
            raise DuplicateJob(record.jid, status.state)
        return push.with_tie(tie._replace(instead_of=record.version))


class RecordPushes(PushPart):
    def ties_of(self, asked: PushRequest) -> RecordTies | None:
        if not says_tracked(asked.options.fields):
            return None
        self._broker().require_part(Records)
        return RecordTies()

    def tie_in(self, fields: Mapping[str, Any]) -> RecordTie | None:
        return record_tie(fields)

    def begin(self) -> RecordCall:
        return RecordCall(self._broker)


def _lookup(broker: Broker) -> JobLookup:
    """Most programs never search."""
    from goworkers_py.admin.job_lookup import JobLookup

    return JobLookup(broker)


def _tie_of_stored(payload: bytes, goes_elsewhere: bool) -> RecordTie | None:
    tracked = tracked_in(payload)
    return None if tracked is None else RecordTie(tracked)


PUSHES = Pushes(RecordPushes, tie_of_stored=_tie_of_stored)
