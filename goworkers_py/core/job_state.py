"""The states of a job. Each value is the word for the state on the command line."""

from __future__ import annotations

import enum


class JobState(enum.Enum):
    WAITING = "waiting"  # in its queue
    IN_PROGRESS = "in progress"  # fetched by a process and not settled
    SCHEDULED = "scheduled"  # waits for a time that the producer chose
    PARKED = "parked"  # waits in a line until it is released
    OUTBOX = "outbox"  # waits until it is relayed to another broker
    RETRY = "retries"  # failed; waits for its next try
    DEAD = "dead"  # failed for good
