"""The states in which a job waits, runs or rests. Its value is the word of the command line."""

from __future__ import annotations

import enum


class JobState(enum.Enum):
    WAITING = "waiting"  # in its queue
    IN_PROGRESS = "in progress"  # fetched by a process and not settled
    SCHEDULED = "scheduled"  # until a time that the producer chose
    RETRY = "retries"  # failed, until its next try
    DEAD = "dead"  # failed for good
