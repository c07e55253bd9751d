"""Finds the jobs that have places in a limit: a key is a digest, and the arguments of its jobs tell which it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import PARKED, RETRIES, waiting_in
from goworkers_py.features.limits.limit import SlotEntry, SlotHolder, slot_of_line
from goworkers_py.wire.message import Message
from goworkers_py.wire.stored_job import StoredJob

# Jobs of each place that are looked at.
MOST_LOOKED_AT = 1_000


def jobs_with_places(inspector: Inspector, slots: Sequence[SlotEntry]) -> dict[str, Message]:
    """By jid. A job that is far from the front of its place is not found, and a block of code is no job."""
    holders = [holder for slot in slots for holder in slot.holders]
    wanted, found = {holder.jid for holder in holders}, dict[str, Message]()
    for job in _near(inspector, holders):
        if wanted <= found.keys():
            break
        if job.jid in wanted and job.message is not None:
            found.setdefault(job.jid, job.message)
    return found


def _near(inspector: Inspector, holders: Sequence[SlotHolder]) -> Iterator[StoredJob]:
    """The jobs of the places where jobs with places are likely to be."""
    yield from (held.job for held in itertools.islice(inspector.in_progress(), MOST_LOOKED_AT))
    queues = {holder.queue for holder in holders if holder.queue and not holder.owner}
    lines = {queue for queue in queues if slot_of_line(queue) is not None}
    for queue in sorted(queues - lines):  # let go, so at the front of its queue
        yield from inspector.first(waiting_in(queue), MOST_LOOKED_AT)
    yield from inspector.first(RETRIES, MOST_LOOKED_AT)
    if lines:
        yield from inspector.first(PARKED, MOST_LOOKED_AT)
