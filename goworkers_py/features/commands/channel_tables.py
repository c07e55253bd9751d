"""Tables of the messages to the processes and from them: calls, answers, reports. Also the audit list."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.brokers.memory.expiring import Expiring
from goworkers_py.brokers.memory.stream import Stream

CALLS_KEPT = 1_000
REPORTS_KEPT = 5_000
ACTIONS_KEPT = 10_000


class ChannelTables:
    """Used under the lock of the state."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.calls: Stream[bytes] = Stream(CALLS_KEPT, clock)
        self.reports: Stream[bytes] = Stream(REPORTS_KEPT, clock)
        self.actions: Stream[bytes] = Stream(ACTIONS_KEPT, clock)
        self.answers: Expiring[str, tuple[bytes, ...]] = Expiring(clock)  # by the id of their call
        self.answered: list[Callable[[], None]] = []  # called at each answer
