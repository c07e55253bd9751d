"""The tie of a tracked job: its push makes its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
