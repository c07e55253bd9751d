"""A job as the gem sidekiq-status shows it: the hash `sidekiq:status:JID`, which the gem makes at the push.

These fields are written here, and `stop` is read:

    status                      a StatusWord
    update_time                 when it was last written, epoch seconds
    at, total, pct_complete     how far the job has got
    message                     and the text that it told then
    working_at                  when the last run began, epoch seconds
    stop                        "true": Ruby asks to stop the job

The jid is published on a channel after each write.
"""

from __future__ import annotations

import math
from typing import Literal

from goworkers_py.core.outcome import (
    Cancelled,
    Dead,
    Discard,
    Done,
    Expired,
    Joined,
    Lost,
    Moved,
    Outcome,
    Park,
    Requeue,
    Reschedule,
    Retry,
    Unacknowledged,
)
from goworkers_py.features.tracking.record import read_progress

StatusWord = Literal["queued", "working", "retrying", "complete", "failed", "stopped", "interrupted"]

CHANNEL = "status_updates"
# The gem's. A hash that the gem was told to keep for longer is kept.
LIFE_S = 1_800


def word_of(outcome: Outcome) -> StatusWord:
    match outcome:
        case Done():
            return "complete"
        case Retry() | Reschedule():
            return "retrying"
        case Dead() | Discard():
            return "failed"
        case Requeue():
            return "interrupted"
        case Park():
            return "queued"
        case Joined() | Expired() | Cancelled() | Unacknowledged() | Lost() | Moved():
            return "stopped"


def fields(status: StatusWord | None, progress: str | None, now: float) -> list[str | int]:
    """Names and values for the hash. `progress` is that of a record, see `features.tracking.record`."""
    flat: list[str | int] = ["update_time", int(now)]
    if status is not None:
        flat += ["status", status]
    if status == "working":
        flat += ["working_at", int(now)]
    far = read_progress(progress or "")
    if far is not None:
        total = far.total or 100  # as the gem
        percent = math.floor(far.at / total * 100)
        flat += ["at", f"{far.at:.14g}", "total", f"{total:.14g}", "pct_complete", percent, "message", far.text]
    return flat
