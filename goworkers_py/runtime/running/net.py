"""Gives an outcome to a run that was broken off outside of the link `retry`: by a fault of our own code around the
chain, or by an exception that was thrown into the worker's thread there.

Such a run counts as failed, by the retry policy of the job: it is retried with a count, and dead in the end. It is
never discarded, whatever its options say: they speak of failures of the job's code, and nobody knows whether that has
run. A run whose code has ended keeps its outcome, so that its side effects do not happen again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from goworkers_py.core.errors import BrokenOff, DiscardJob
from goworkers_py.core.outcome import Cancelled, Dead, Discard, Expired, Outcome, Retry
from goworkers_py.core.values import dataclass
from goworkers_py.links.handlers import Handlers
from goworkers_py.links.retry import with_kept
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.policy.registry import Registry
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire import payload
from goworkers_py.wire.failure import error_class, error_text, failure_fields, own_traceback
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")


@dataclass(frozen=True)
class Net:
    """Shared by all workers of a queue. Its methods raise nothing but what is thrown into the worker's thread."""

    policy: RetryPolicy
    registry: Registry
    handlers: Handlers
    run_stats: RunStats
    wall: Callable[[], float]

    def failed(self, message: Message, error: BaseException) -> Outcome:
        """The outcome of a run that was broken off by this exception."""
        try:
            broken = BrokenOff(f"{error_class(error)}: {error_text(error)}").with_traceback(own_traceback(error))
            outcome = with_kept(message, self._decided(message, broken))
            self.run_stats.add_unrun(message.job_class, outcome)
            self._tell(message, broken, outcome)
        except Exception as fault:
            return self.buried(message.raw, fault)
        return outcome

    def unrun(self, message: Message, outcome: Outcome) -> None:
        """A rung has answered so, and the code of the job was not run. People see a discarded job as if the code had
        raised DiscardJob."""
        if not isinstance(outcome, Discard | Expired | Cancelled):
            return
        self.run_stats.add_unrun(message.job_class, outcome)
        if not isinstance(outcome, Discard):
            return
        message.failure = DiscardJob.__name__, outcome.why
        with suppress(Exception):  # a log filter of the user's raises
            log.info("discarded, and not run: %s", outcome.why)
        self.handlers.tell_of_death(message, DiscardJob(outcome.why))

    def _decided(self, message: Message, error: BrokenOff) -> Outcome:
        now = self.wall()
        message.failure = error_class(error), error_text(error)
        outcome = self.policy.decide(message, error, self.registry.options_for(message), now)
        if isinstance(outcome, Retry | Dead):
            return outcome
        changes = failure_fields(message, error, self.policy.timestamps.write(now))
        return Dead(payload.splice(message.raw, changes, drop=("at",)))

    def _tell(self, message: Message, error: BrokenOff, outcome: Outcome) -> None:
        with suppress(Exception):  # a log filter of the user's raises: the job still needs its outcome
            what = "to be retried" if isinstance(outcome, Retry) else "moved to the dead set"
            exc_info = type(error), error, error.__traceback__
            log.error("run broken off outside of the job's code: %s; %s", error, what, exc_info=exc_info)
        self.handlers.tell_of_error(message, error)
        if isinstance(outcome, Dead):
            self.handlers.tell_of_death(message, error)

    def kept(self, outcome: Outcome, error: BaseException) -> Outcome:
        """The outcome of a run whose code had ended when our code behind it raised."""
        with suppress(Exception):
            log.error(
                "the run has ended, but a consequence of its end failed, and is left out: %s: %s",
                error_class(error), error_text(error), exc_info=(type(error), error, error.__traceback__),
            )  # fmt: skip
        return outcome

    def buried(self, raw: bytes, error: BaseException) -> Dead:
        """The outcome of a payload of which our code cannot make any other: all its bytes are kept."""
        with suppress(Exception):
            log.error(
                "moved to the dead set with the bytes that were fetched: %s: %s",
                error_class(error), error_text(error), exc_info=(type(error), error, error.__traceback__),
            )  # fmt: skip
        return Dead(raw)
