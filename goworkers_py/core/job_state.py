"""The states of a job, and the places in which a broker keeps jobs."""

from __future__ import annotations

import enum
from typing import Literal, get_args

# The state of one job, as `workers.status(jid).state` tells it.
StateWord = Literal[
    "scheduled",  # waits for a time that the producer chose
    "grouped",  # waits in a group until it is aggregated
    "waiting",  # in its queue; fetched and not begun; or in a line
    "running",
    "retry",  # failed; waits for its next try
    "dead",  # failed for good
    "completed",
    "cancelled",  # or deleted by people
    "expired",  # not begun by its `expires_at`
    "unknown",
]
STATES: tuple[StateWord, ...] = get_args(StateWord)
ENDED: tuple[StateWord, ...] = ("dead", "completed", "cancelled", "expired")
# Tracked jobs that have ended so are in an index. Dead jobs have a place of their own.
INDEXED: tuple[StateWord, ...] = ("completed", "cancelled", "expired")


class JobState(enum.Enum):
    """A place. Each value is its word on the command line."""

    WAITING = "waiting"  # in its queue
    IN_PROGRESS = "in progress"  # fetched by a process and not settled
    SCHEDULED = "scheduled"  # waits for a time that the producer chose
    PARKED = "parked"  # waits in a line until it is released
    OUTBOX = "outbox"  # waits until it is relayed to another broker
    RETRY = "retries"  # failed; waits for its next try
    DEAD = "dead"  # failed for good
