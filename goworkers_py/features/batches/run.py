"""The short cut of jobs that are in a batch and are nothing else that a worker must look at.

The jobs of a batch have equal fields `pyworkers`. So the field is read once, and those of the next jobs are compared
with it, in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from goworkers_py.features.batches.batch import Membership
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.batches.payload import BATCH, batch_of, is_over
from goworkers_py.features.in_process import GoodEnd, InProcess, ShortCut
from goworkers_py.wire.needs import FIELD, lacking

_MEMBERS = {"v", "needs", BATCH}


class BatchRuns(InProcess):
    def __init__(self) -> None:
        # For `message.batch`: a first import in the code of a job takes a lock, while exceptions may be thrown into it.
        import goworkers_py.features.batches.joining  # noqa: F401

    def short_cuts(self, speaks: Collection[str]) -> Mapping[str, ShortCut]:
        return {BATCH: BatchMembers(speaks).good_end}


class BatchMembers:
    """Shared by all workers of a queue. `_last` has no lock: it is replaced as a whole."""

    def __init__(self, speaks: Collection[str]) -> None:
        self._speaks = speaks
        self._last: tuple[object, GoodEnd | None] = (object(), None)

    def good_end(self, fields: Mapping[str, Any]) -> GoodEnd | None:
        """Of a job that is in a batch, has no other tie and needs nothing that this release does not know."""
        field: Any = fields.get(FIELD)
        known, good_end = self._last
        if field == known and field["v"] is not True:  # True is equal to 1
            return good_end
        if field.keys() != _MEMBERS or lacking(field, self._speaks):
            return None
        member = batch_of(fields)
        if member is None or is_over(fields):
            return None
        good_end = _counted_in(member)
        self._last = field, good_end
        return good_end


def _counted_in(member: Membership) -> GoodEnd:
    return lambda jid: EndInBatch(jid, member, "succeeded")
