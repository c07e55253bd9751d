"""The effect that writes the state of a tracked job into its record."""

from __future__ import annotations

from goworkers_py.core.job_state import StateWord
from goworkers_py.core.values import NamedTuple


class TrackedJob(NamedTuple):
    """A job whose states are recorded."""

    jid: str
    job_class: str  # empty: not known


class NoteState(NamedTuple):
    """Writes the state of a tracked job into its record, see `features.tracking.record`, which lives for `life_s`
    seconds from then on. A record that cannot be written does not keep the job from being settled. To write a state
    twice does no harm, so this effect is not one of those that happen once for each id.

    Every tracked job makes one. A named tuple is made in a third of the time of a dataclass."""

    job: TrackedJob
    state: StateWord
    reason: str  # a few words for the timeline
    life_s: int
    fields: tuple[tuple[str, str | bytes], ...] = ()
    only_known: bool = False  # does nothing for a job without a record

    @property
    def jid(self) -> str:
        return self.job.jid

    @property
    def kind(self) -> str:
        return "state"

    @property
    def size(self) -> int:
        return sum([len(value) for _, value in self.fields]) if self.fields else 0

    @property
    def repeatable(self) -> bool:
        return True
