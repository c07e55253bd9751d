"""The tracked jobs that have ended, by their state: an index of the records."""

from __future__ import annotations

from goworkers_py.core.job_state import INDEXED, StateWord
from goworkers_py.features.tracking.contract import EndedPlace

KEPT = 10_000  # of each state


class EndedTable:
    """Used under the lock of the state."""

    def __init__(self) -> None:
        # By the jid, those that have ended last at the end.
        self._times: dict[StateWord, dict[str, float]] = {state: {} for state in INDEXED}

    def add(self, state: StateWord, jid: str, at: float) -> None:
        times = self._times[state]
        times.pop(jid, None)
        times[jid] = at
        if len(times) > KEPT:
            del times[next(iter(times))]

    def remove(self, state: StateWord, place: EndedPlace) -> None:
        """Unless the job has ended again."""
        if self._times[state].get(place.jid) == place.at:
            del self._times[state][place.jid]

    def behind(self, state: StateWord, after: EndedPlace | None) -> list[EndedPlace]:
        """The newest first."""
        places = [EndedPlace(at, jid) for jid, at in self._times[state].items()]
        behind = [one for one in places if after is None or one.order < after.order]
        return sorted(behind, key=lambda place: place.order, reverse=True)

    def count(self, state: StateWord) -> int:
        return len(self._times[state])
