"""The record of a job, as people and the engine see it: its state, its moves, its progress, its result or its error."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.core.job_state import StateWord
from goworkers_py.core.values import dataclass
from goworkers_py.wire import payload


@dataclass(frozen=True, slots=True)
class Move:
    """A job came into a state."""

    state: str
    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has got, as its code says with `current_message().progress`."""

    at: float
    total: float | None
    text: str
    time: float  # when it was told, epoch seconds

    @property
    def percent(self) -> float | None:
        """From 0 to 100; None if the job gave no total."""
        return 100 * self.at / self.total if self.total else None

    def as_json(self) -> str:
        """As the record of a tracked job keeps it: a list of at, total, text and time."""
        return payload.encode([self.at, self.total, self.text, self.time])


@dataclass(frozen=True, slots=True)
class JobRecord:
    jid: str
    state: StateWord
    at: float
    moves: int  # how many there were, also those that are not kept
    queue: str
    job_class: str
    group: str
    due: str  # the text of the time, as a sorted set has it
    owner: str
    error_class: str
    error_message: str
    result: bytes | None
    lost: str
    progress: Progress | None
    timeline: Sequence[Move]
    version: str  # changes with each move
