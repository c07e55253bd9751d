"""A fence: of the processes that may work behind it, one writes at a time, and the broker refuses the writes of others.

The lease of a fence is a record in the broker. Its holder has a term, which has an epoch (a number that only grows)
and a token (a random word that no other term has). A broker that was opened with the fence of a term, see
`Broker.open_fenced`, writes only while the term lasts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from goworkers_py.core import machine
from goworkers_py.core.errors import Fenced
from goworkers_py.core.values import NamedTuple


class Fence:
    """The fence around one term. Every write of the term passes it: `check` before the write is sent, and the broker
    compares `token` in the step of the write.

    The thread that renews the term changes it. Any thread may call `check` and `fall`.
    """

    def __init__(self, name: str, token: str) -> None:
        """`name` is that of the lease in the broker, of which at most one term holds at a time: as people call the
        partition."""
        self.name = name
        self.token = token
        self.epoch = 0  # set before the first `hold`
        self._until = -math.inf
        self._fallen = ""
        self.on_fall: Callable[[], None] = lambda: None

    def hold(self, until: float) -> None:
        """The term lasts until then, on the clock `awake_and_asleep`."""
        self._until = until

    def fall(self, why: str) -> None:
        """The term is over for good."""
        if not self._fallen:
            self._fallen = why
            self.on_fall()

    @property
    def fallen(self) -> str:
        """Why the term is over; empty while it is not, or when only its time has run out."""
        return self._fallen

    @property
    def left_s(self) -> float:
        """Seconds that are left of the term, unless it is renewed; 0 when it is over."""
        return 0.0 if self._fallen else max(0.0, self._until - machine.awake_and_asleep())

    @property
    def holds(self) -> bool:
        return not self._fallen and machine.awake_and_asleep() < self._until

    def check(self) -> None:
        if not self.holds:
            raise Fenced(self._fallen or f"the lease of the leader of epoch {self.epoch} was not renewed in time")


class Term(NamedTuple):
    """The term in which a job runs, or which a process has."""

    fence: Fence
    broker: object  # behind the fence: the job's pushes go there


pushes_as_producer: ContextVar[bool] = ContextVar("pushes_as_producer", default=False)


@contextmanager
def as_producer() -> Iterator[None]:
    """Code that is no work of a term, such as the pages of its process: its pushes are not fenced."""
    before = pushes_as_producer.set(True)
    try:
        yield
    finally:
        pushes_as_producer.reset(before)
