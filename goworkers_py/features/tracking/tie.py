"""The tie of a tracked job: its push makes its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goworkers_py.core.values import NamedTuple
from goworkers_py.features.parts import Copies
from goworkers_py.features.tracking.record import says_tracked, tracked_of

if TYPE_CHECKING:
    from goworkers_py.features.tracking.effects import TrackedJob


class RecordTie(NamedTuple):
    """While there is a record of this jid, the push is a duplicate. It replaces the record of the version `instead_of`:
    that of a job which was found nowhere."""

    job: TrackedJob
    instead_of: str = ""

    @property
    def word(self) -> str:
        return "record"


def record_tie(fields: Mapping[str, Any]) -> RecordTie | None:
    """The tie of the job with these fields of a payload; None for a job without a record."""
    job = tracked_of(fields) if says_tracked(fields) else None
    return None if job is None else RecordTie(job)


def _ties_of_copy(fields: Mapping[str, Any]) -> Sequence[RecordTie]:
    tie = record_tie(fields)
    return () if tie is None else (tie,)


COPIES = Copies(ties=_ties_of_copy)
