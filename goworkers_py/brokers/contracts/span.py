"""Which jobs of a place are read or changed: those of a span of time, or those behind the jobs of a former call."""

from __future__ import annotations

import math
from collections.abc import Callable
from urllib.parse import quote, unquote

from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.wire.stored_job import StoredJob

MOST_JOBS = 2**53  # more than a place can hold


class Reached(NamedTuple):
    """How far a change has come, so that another call can go on there."""

    time: float | None = None  # of the last job; None where jobs have no time, and at the beginning
    skip: int = 0  # jobs of this time that stayed, which need not be looked at again; without a time, of the place
    # Of a queue: the jid of the last job that stayed. Workers take jobs away before it, so it comes nearer meanwhile.
    behind: str = ""

    def __str__(self) -> str:
        behind = quote(self.behind, safe="", errors="surrogatepass")
        return f"{self.skip} {'' if self.time is None else repr(self.time)} {behind}"

    @classmethod
    def read(cls, text: str) -> Reached:
        skip, _, rest = text.partition(" ")
        time, _, behind = rest.partition(" ")
        try:
            reached = cls(float(time) if time else None, int(skip), unquote(behind, errors="surrogatepass"))
        except ValueError:
            reached = cls(skip=-1)
        if not 0 <= reached.skip <= MOST_JOBS or (reached.time is not None and math.isnan(reached.time)):
            raise ArgumentError(f"{text!r} is not how far a change has come")
        return reached


BEGINNING = Reached()


@dataclass(frozen=True, slots=True)
class Span:
    """The jobs whose time is from `first` to `last`, in the order in which they are read. None: no such limit."""

    newest_first: bool = False
    first: float | None = None
    last: float | None = None
    reached: Reached = BEGINNING  # a former call has looked at the jobs before it
    next_first: bool = False  # of a queue alone: those that are consumed next come first, and not the newest

    @classmethod
    def of(cls, since: float | None, until: float | None, newest_first: bool) -> Span:
        return cls(newest_first, *((until, since) if newest_first else (since, until)))

    def start(self, before: Callable[[float, bool], int]) -> int:
        """How many jobs come before those to look at. `before` is the verb of that name of the place."""
        first = self.first if self.reached.time is None else self.reached.time
        return self.reached.skip + (0 if first is None else before(first, self.newest_first))

    def is_behind(self, job: StoredJob) -> bool:
        """Whether the job, and each one after it, has another time than those of the span."""
        if self.last is None or job.at is None:
            return False
        return job.at < self.last if self.newest_first else job.at > self.last


EVERY_JOB = Span()
