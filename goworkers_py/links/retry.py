"""The link that turns an exception into an outcome, and calls the user's handlers with the exception."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentsDoNotFit, DiscardJob, JobCancelled, RetryJob, UnknownJob
from goworkers_py.core.outcome import CANCELLED, LOST, Dead, Discard, Done, Outcome, Retry
from goworkers_py.core.values import dataclass
from goworkers_py.links.chain import Run
from goworkers_py.links.handlers import Handlers
from goworkers_py.observe.log_format import time_text
from goworkers_py.policy.registry import Registry
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire.failure import error_class, error_text, in_place_of, next_count, own_traceback
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")

# How much of an error's text is in the log line of a failure; the traceback has all of it.
LONGEST_TEXT = 1_000

GIVEN_AWAY = "interrupted: the lease of this process has expired, and the job was given to another process"


@dataclass(frozen=True)
class RetryLink:
    policy: RetryPolicy
    registry: Registry
    handlers: Handlers
    wall: Callable[[], float] = lambda: machine.time()

    def __call__(self, inner: Run) -> Run:
        def run(message: Message) -> Outcome:
            try:
                outcome = inner(message)
                return outcome if message.cancel is None else self._gave_up(message, outcome)
            except BaseException as error:  # also SystemExit: a job that calls sys.exit has failed, the worker has not
                try:
                    return with_kept(message, self._failed(message, error))
                except BaseException:  # `error` raises when its type or text is read
                    return with_kept(message, self._failed(message, in_place_of(error)))

        return run

    def _gave_up(self, message: Message, outcome: Outcome) -> Outcome:
        """A job with `interrupt=False` that has asked whether it is cancelled, and returned, has given up."""
        request = message.cancel
        asked = request is not None and request.seen and not request.retry and not request.lost
        if isinstance(outcome, Done) and asked and not self.registry.may_be_interrupted(message):
            log.info("cancelled while it ran")
            return with_kept(message, CANCELLED)
        return outcome

    def _failed(self, message: Message, error: BaseException) -> Outcome:
        if message.cancel is not None and (message.cancel.lost or not message.cancel.retry):
            ours = isinstance(error, JobCancelled | asyncio.CancelledError)
            reason = GIVEN_AWAY if message.cancel.lost else "cancelled while it ran"
            log.info(reason, exc_info=None if ours else (type(error), error, own_traceback(error)))
            return LOST if message.cancel.lost else CANCELLED
        message.failure = error_class(error), error_text(error)
        now = self.wall()
        options = self.registry.options_for(message)
        again = self.policy.again(message, error, options, now)
        outcome = again or self.policy.decide(message, error, options, now)
        if isinstance(outcome, Discard):
            outcome = Discard(f"{error_class(error)}: {error_text(error)}"[:LONGEST_TEXT])
        try:
            if again is not None:
                _log_no_failure(error, again.at - now)
            else:
                _log_failure(message, error, outcome, now)
        except Exception as fault:  # from the user's logging filter or handler: the job still needs its outcome
            with suppress(Exception):
                logging.getLogger(__name__).error("a failed run could not be logged: %s", error_text(fault))
        if again is None:
            self.handlers.tell_of_error(message, error)
        if isinstance(outcome, Dead | Discard):
            self.handlers.tell_of_death(message, error)
        return outcome


def with_kept(message: Message, outcome: Outcome) -> Outcome:
    """The outcome of a run that raised, with what a feature keeps of the run."""
    return outcome if message.on_raised is None else message.on_raised(outcome)


def _log_no_failure(error: BaseException, delay_s: float) -> None:
    why = f"{error_class(error)}: {error_text(error)[:LONGEST_TEXT]}"
    log.info("rescheduled: to run again in %.0f s, without spending a retry: is_failure says no to %s", delay_s, why)


def _log_failure(message: Message, error: BaseException, outcome: Outcome, now: float) -> None:
    """Logs the only line about this failure, with its traceback. Its level is ERROR for monitoring tools."""
    if isinstance(error, DiscardJob):
        log.info("discarded: %s", error_text(error), extra={"error_class": error_class(error)})
        return
    extra: dict[str, Any] = {"retry_count": next_count(message)}
    if isinstance(outcome, Retry):
        extra["next_retry_at"] = time_text(outcome.at)
    level = _level(error, outcome)
    exc_info = None
    if level >= logging.ERROR or error.__cause__ is not None:
        exc_info = (type(error), error, own_traceback(error))
    else:
        extra["error_class"] = error_class(error)
    text = f"failed: {error_class(error)}: {error_text(error)[:LONGEST_TEXT]}; {_what_next(outcome, now)}"
    log.log(level, "%s", text, exc_info=exc_info, extra=extra)


def _level(error: BaseException, outcome: Outcome) -> int:
    if isinstance(error, UnknownJob) and isinstance(outcome, Retry):
        return logging.INFO  # `perform` has logged a warning about the class
    if isinstance(error, RetryJob | ArgumentsDoNotFit) and isinstance(outcome, Retry):
        return logging.WARNING  # the job itself asked for the retry, or waits for the end of a deploy
    return logging.ERROR


def _what_next(outcome: Outcome, now: float) -> str:
    match outcome:
        case Retry(at, _):
            return f"to be retried in {at - now:.0f} s"
        case Dead():
            return "moved to the dead set"
        case _:
            return "not retried"
