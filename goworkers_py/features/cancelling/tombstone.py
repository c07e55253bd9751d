"""A request to cancel a job wherever it is."""

from __future__ import annotations

from goworkers_py.core.values import NamedTuple

# Between the clock of the program that pushes a job and that of the program that cancels it.
CLOCKS_APART_S = 60.0


class Tombstone(NamedTuple):
    """Waits for a process to meet the job."""

    retry: bool  # as in CancelRequest
    at: float  # epoch seconds, when the job was to be cancelled
    many: bool = False  # of a batch or a chain, whose jobs name it in their payloads

    def is_of(self, created_at: float | None) -> bool:
        """False for a later job of the same jid, created at this time. An old worker or Ruby may have run the job for
        which the tombstone was laid, and left the tombstone."""
        return created_at is None or created_at <= self.at + CLOCKS_APART_S
