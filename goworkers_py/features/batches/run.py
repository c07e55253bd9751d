"""Tells the jobs that are in a batch and are nothing else that a worker must look at.

The jobs of a batch have equal fields `pyworkers`. So the field is read once, and those of the next jobs are compared
with it, in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.features.batches.batch import Membership
from goworkers_py.features.batches.payload import BATCH, batch_of, is_over
from goworkers_py.policy.needs import Needs
from goworkers_py.wire.needs import FIELD, lacking

_MEMBERS = {"v", "needs", BATCH}


class BatchMembers:
    """Shared by all workers of a queue. `_last` has no lock: it is replaced as a whole."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._last: tuple[object, Membership | None] = (object(), None)

    def batch_of(self, fields: Mapping[str, Any]) -> Membership | None:
        """The batch of a job that has no other tie and needs nothing that this release does not know."""
        field: Any = fields.get(FIELD)
        known, member = self._last
        if field == known and field["v"] is not True:  # True is equal to 1
            return member
        if not isinstance(field, dict) or field.keys() != _MEMBERS or lacking(field, self._needs.speaks):
            return None
        member = batch_of(fields)
        if member is None or is_over(fields):
            return None
        self._last = field, member
        return member
