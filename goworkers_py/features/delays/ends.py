"""The ends of runs, which reach the persistence also after an outage."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from goworkers_py.core.errors import BrokerError, BrokerUnavailable
from goworkers_py.core.strikes import Lock
from goworkers_py.features.delays.book import Book, TaskFiring
from goworkers_py.features.delays.task import DelayTask
from goworkers_py.runtime.outage import Outage

_WHO = "delay ends"


def in_our_words(error: Exception) -> BrokerError:
    """An exception of a persistence, which may be one of a stranger's driver."""
    return error if isinstance(error, BrokerError) else BrokerUnavailable(f"{type(error).__name__}: {error}")


class Ends:
    """The ends of runs: what the persistence refuses to be told now is told again later."""

    def __init__(self, book: Book, outage: Outage) -> None:
        self._book = book
        self._outage = outage
        self._lock = Lock()
        self._open: list[Callable[[], None]] = []

    def end(self, firing: TaskFiring, again: DelayTask | None) -> None:
        self._tell(lambda: self._book.end(firing, again))

    def free(self, firing: TaskFiring) -> None:
        self._tell(lambda: self._book.free(firing))

    def _tell(self, report: Callable[[], None]) -> None:
        try:
            report()
        except Exception as error:
            self._outage.failed(_WHO, in_our_words(error))
            with self._lock:
                self._open.append(report)

    def tell_again(self) -> None:
        """Each is tried, also behind one that is refused again. Raises the first error."""
        with self._lock:
            tried = [*self._open]
        errors: list[Exception] = []
        for report in tried:
            try:
                report()
            except Exception as error:
                errors.append(error)
            else:
                with self._lock, suppress(ValueError):  # the thread that stops the queue may tell the same
                    self._open.remove(report)
        if errors:
            raise errors[0]
        self._outage.recovered(_WHO)

    @property
    def any_open(self) -> bool:
        return bool(self._open)
