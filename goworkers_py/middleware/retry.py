"""The link that turns an exception into an outcome, and tells the handlers of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from goworkers_py.errors import DiscardJob, UnknownJob
from goworkers_py.failure import RetryPolicy, describe, error_class, in_place_of
from goworkers_py.message import Message
from goworkers_py.middleware.chain import Run
from goworkers_py.outcome import Dead, Discard, Outcome, Retry
from goworkers_py.registry import Registry

log = logging.getLogger("goworkers_py.job")

Handler = Callable[[Message, BaseException], None]


@dataclass
class Handlers:
    """The user's functions `f(message, error)`: after every failed run, and when a job will not be retried any more."""

    error: list[Handler] = field(default_factory=list)
    death: list[Handler] = field(default_factory=list)

    def tell_of_error(self, message: Message, error: BaseException) -> None:
        _tell(self.error, message, error)

    def tell_of_death(self, message: Message, error: BaseException) -> None:
        _tell(self.death, message, error)


@dataclass(frozen=True)
class RetryLink:
    policy: RetryPolicy
    registry: Registry
    handlers: Handlers
    wall: Callable[[], float] = time.time

    def __call__(self, inner: Run) -> Run:
        def run(message: Message) -> Outcome:
            try:
                return inner(message)
            except BaseException as error:  # also SystemExit: a job that calls sys.exit has failed, the worker has not
                try:
                    return self._failed(message, error)
                except BaseException:  # its exception raises where it is looked at
                    return self._failed(message, in_place_of(error))

        return run

    def _failed(self, message: Message, error: BaseException) -> Outcome:
        now = self.wall()
        outcome = self.policy.decide(message, error, self.registry.options_for(message), now)
        what_next = _what_next(outcome, now)
        if isinstance(error, DiscardJob):
            log.info("discarded: %s", describe(error))
        else:
            # An unknown class was warned of once, by `perform`.
            level = logging.INFO if isinstance(error, UnknownJob) else logging.WARNING
            log.log(level, "failed: %s: %s; %s", error_class(error), describe(error)[:1000], what_next)
        self.handlers.tell_of_error(message, error)
        if isinstance(outcome, Dead | Discard):
            self.handlers.tell_of_death(message, error)
        return outcome


def _what_next(outcome: Outcome, now: float) -> str:
    match outcome:
        case Retry(at, _):
            return f"to be retried in {at - now:.0f} s"
        case Dead():
            return "moved to the dead set"
        case _:
            return "not retried"


def _tell(handlers: Sequence[Handler], message: Message, error: BaseException) -> None:
    for handler in handlers:
        try:
            handler(message, error)
        except BaseException:
            log.exception("handler %r failed", handler)
