"""The jobs of one call of a push, checked, and in how large steps they are pushed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from goworkers_py.api.job_writer import JobWriter, Times, WrittenJob
    from goworkers_py.features.limits.limit import SlotTie

BULK_SLICE = 1_000
# A push with a place in a limit takes ten times as long as another one, and the broker does nothing else meanwhile.
LIMITED_SLICE = 50


class PushForm(NamedTuple):
    writer: JobWriter
    rows: Sequence[Sequence[Any]]
    times: Times
    later: float | None
    jid: str | None  # given by the caller
    locks: Sequence[str] | None
    bid: str
    slots: Sequence[SlotTie] = ()

    @property
    def slice(self) -> int:
        """How many jobs are pushed in a step."""
        return LIMITED_SLICE if self.slots else BULK_SLICE


def of_rows(
    count: int, before: Sequence[str | None], jobs: Sequence[WrittenJob | None], places: frozenset[int]
) -> list[str | None]:
    """The jid of each row that was pushed, of `count`: those of the slices before, and of this slice those at `places`
    among its pushes."""
    written = [(at, job.jid) for at, job in enumerate(jobs) if job is not None]
    pushed: list[str | None] = [*before, *[None] * (count - len(before))]
    for place in places:
        at, jid = written[place]
        pushed[len(before) + at] = jid
    return pushed
