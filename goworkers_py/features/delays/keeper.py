"""The thread that looks after the persistence: the lease, the tasks of other processes, and what could not be told."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.core import machine
from goworkers_py.features.delays.book import Book
from goworkers_py.features.delays.ends import Ends, in_our_words
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

LOOK_S = 5.0
TELL_AGAIN_S = 0.5


class TaskKeeper(BrokerService):
    def __init__(
        self,
        book: Book,
        ends: Ends,
        outage: Outage,
        steady: Callable[[], float] = lambda: machine.awake_and_asleep(),
    ) -> None:
        """`steady` says when to look. It is not the clock of the server, which may be set back."""
        super().__init__("delay keeper", outage)
        self._book = book
        self._ends = ends
        self._steady = steady
        self._next_look = steady() + LOOK_S  # this thread only

    def run_once(self) -> float:
        try:
            # First: an end that is refused again and again must not cost the lease.
            if self._steady() >= self._next_look:
                self._book.look()
                self._next_look = self._steady() + LOOK_S
            if self._ends.any_open:
                self._ends.tell_again()
        except Exception as error:
            raise in_our_words(error) from error
        return TELL_AGAIN_S
