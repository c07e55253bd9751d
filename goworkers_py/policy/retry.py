"""Decides the outcome of a failed run, by Sidekiq 8's rules.

Pure: the outcome depends only on the job, the error, the time and the random source. Delay queues decide by it too.

For users: docs/middleware-and-hooks.md has the formula of the delay, docs/later-and-again.md what it comes to.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from goworkers_py.config.job_options import CodeOptions, RetryIn
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentsDoNotFit, DiscardJob, KillJob, RetryJob
from goworkers_py.core.outcome import DISCARD, Dead, Outcome, Reschedule, Retry
from goworkers_py.core.values import dataclass
from goworkers_py.wire import payload
from goworkers_py.wire.failure import backtrace, failure_fields, next_count, pack_backtrace
from goworkers_py.wire.message import Message, Timestamps, epoch, jid_where_missing, whole_number
from goworkers_py.wire.ruby import ruby_flaw

log = logging.getLogger(__name__)

# A deep recursion repeats its frames, so more lines add nothing.
MAX_BACKTRACE_LINES = 200
# For a job without the option `backtrace`: enough lines from the inner frames of a library to the job's own line.
USUAL_BACKTRACE_LINES = 20

# A job whose arguments do not fit waits so long for the end of a deploy, with pauses between these.
UNFIT_FOR_S = 600.0
UNFIT_PAUSE_S = range(15, 61)
# The payload's field with the time since which its arguments do not fit.
_UNFIT_SINCE = "unfit_since"

# A retry count in a stranger's payload may be any number. The delay of count 1,000 is 30,000 years.
_MOST_STEPS = 1_000
_LONGEST_DELAY_S = 1e12


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Turns a failed run into its outcome."""

    max_retries: int = 25
    timestamps: Timestamps = field(default_factory=Timestamps)
    random_below: Callable[[int], int] = lambda below: machine.random.randrange(below)

    def decide(self, message: Message, error: BaseException, options: CodeOptions, now: float) -> Outcome:
        limit = self._limit(message, options)
        count = next_count(message)
        if isinstance(error, DiscardJob):
            return DISCARD
        if limit is None:
            limit = 0
            if not isinstance(error, KillJob):
                return DISCARD
        delay = self._delay(error, options, count, now)
        if delay == "discard":
            return DISCARD
        dies = delay == "kill" or self._exhausted(message, error, options, count, limit, now)
        if dies and not wants_burial(message, options):
            return DISCARD
        changes = self._failure_fields(message, error, options, now, count)
        if dies:
            changes.pop(_UNFIT_SINCE, None)  # a retry by hand begins anew
            return Dead(self._rewrite(message, changes))
        rewritten = self._rewrite(message, changes)
        flaw = ruby_flaw(rewritten)
        if flaw:
            log.warning("moved to the dead set instead of retried, because Ruby would lose the job: %s", flaw)
            return Dead(rewritten)  # even with `dead: false`: the job still has retries left
        return Retry(now + float(delay), rewritten)

    def again(self, message: Message, error: BaseException, options: CodeOptions, now: float) -> Reschedule | None:
        """One more run, which spends no retry, after an error that the option `is_failure` calls none. None after a
        failure."""
        if _is_failure(options.get("is_failure"), error):
            return None
        delay = self._delay(error, options, next_count(message), now)
        raw = self._rewrite(message, {"queue": message.queue, **jid_where_missing(message)})
        if isinstance(delay, str) or ruby_flaw(raw):
            return None  # `retry_in` says how the job ends, or it cannot wait in the schedule, which Ruby reads
        return Reschedule(now + delay, raw)

    def _limit(self, message: Message, options: CodeOptions) -> int | None:
        """The number of retries; None for a job that is neither retried nor buried (`retry: false`)."""
        wanted = _option("retry", message, options, True)
        if wanted is False:
            return None
        number = whole_number(wanted)
        if number is not None:
            return number
        # go-workers2 writes `retry: true` and a number as `retry_max`. Sidekiq takes any other truthy value for true.
        go_limit = whole_number(_option("retry_max", message, options))
        return go_limit if go_limit is not None and go_limit >= 0 else self.max_retries

    def _exhausted(
        self, message: Message, error: BaseException, options: CodeOptions, count: int, limit: int, now: float
    ) -> bool:
        unfit = isinstance(error, ArgumentsDoNotFit)
        if unfit and now - _unfit_since(message, now) > UNFIT_FOR_S:
            return True
        retry_for = _option("retry_for", message, options)
        if isinstance(retry_for, int | float) and not isinstance(retry_for, bool):
            first_failure = message.failed_at if message.failed_at is not None else now
            # Not `now > first_failure + retry_for`: an int too large for a float can be compared, but not added.
            return now - first_failure > retry_for
        return limit <= 0 if unfit else count >= limit

    def _delay(self, error: BaseException, options: CodeOptions, count: int, now: float) -> float | str:
        """Seconds until the next run, or "discard" or "kill"."""
        if isinstance(error, KillJob):
            return "kill"
        if isinstance(error, RetryJob):
            asked = error.delay if error.delay is not None else max(0.0, (error.at or 0.0) - now)
            if math.isfinite(asked):  # RetryJob checked it, but its attributes can change later
                return asked
        answer = _ask_retry_in(options.get("retry_in"), count, error)
        if isinstance(answer, str):
            return answer
        if isinstance(error, ArgumentsDoNotFit):
            return UNFIT_PAUSE_S.start + self.random_below(len(UNFIT_PAUSE_S))
        steps = min(max(count, 0), _MOST_STEPS)
        base = answer if answer is not None else steps**4 + 15
        return base + self.random_below(10 * (steps + 1))

    def _failure_fields(
        self, message: Message, error: BaseException, options: CodeOptions, now: float, count: int
    ) -> dict[str, Any]:
        queue = _name(message.get("retry_queue")) or options.get("retry_queue") or message.queue
        fields = failure_fields(message, error, self.timestamps.write(now)) | {"queue": queue, "retry_count": count}
        lines = _backtrace_lines(_option("backtrace", message, options))
        if lines:
            fields["error_backtrace"] = pack_backtrace(backtrace(error, lines)[:MAX_BACKTRACE_LINES])
        if isinstance(error, ArgumentsDoNotFit):
            fields.pop("retry_count")  # the run did not begin: it spends no retry
            if "failed_at" in fields and message.failed_at is not None:
                fields["retried_at"] = fields.pop("failed_at")
            fields[_UNFIT_SINCE] = self.timestamps.write(_unfit_since(message, now))
        return fields

    def _rewrite(self, message: Message, changes: dict[str, Any]) -> bytes:
        # Sidekiq's page fails on Go's text times, and Sidekiq schedules a job that has an `at`.
        for name in ("failed_at", "retried_at", "enqueued_at", "created_at"):
            value = message.get(name)
            if name not in changes and isinstance(value, str):
                at = epoch(value)
                changes[name] = self.timestamps.write(at) if at is not None else None
        if message.get("args") is None:
            changes["args"] = []  # as we have run it; Sidekiq loses a job without arguments as it promotes it
        # The process survived this run, so the count of deaths (`recovered`, see `poison`) ends.
        return payload.splice(message.raw, changes, drop=("at", "recovered", _UNFIT_SINCE))


def _option(name: str, message: Message, options: Mapping[str, object], default: object = None) -> Any:
    """The option in the payload; if it has none, the one in the job's code."""
    of_payload = message.get(name)
    return of_payload if of_payload is not None else options.get(name, default)


def _name(value: Any) -> str:
    return value if payload.is_name(value) else ""


def _unfit_since(message: Message, now: float) -> float:
    since = epoch(message.get(_UNFIT_SINCE))
    return now if since is None else since


def wants_burial(message: Message, options: CodeOptions) -> bool:
    return _option("dead", message, options) is not False


def _ask_retry_in(retry_in: RetryIn, count: int, error: BaseException) -> float | str | None:
    try:
        answer = retry_in(count, error) if callable(retry_in) else retry_in
    except DiscardJob:
        return "discard"
    except KillJob:
        return "kill"
    except BaseException:
        log.exception("retry_in failed; using the default delay")
        return None
    if answer is None or (isinstance(answer, str) and answer in ("discard", "kill")):
        return answer
    if isinstance(answer, int | float) and 0 < answer <= _LONGEST_DELAY_S:
        return answer
    log.warning("retry_in gave %r; using the default delay. Return seconds above 0, 'discard' or 'kill'", answer)
    return None


def _is_failure(is_failure: Callable[[BaseException], bool] | None, error: BaseException) -> bool:
    if is_failure is None or isinstance(error, DiscardJob | KillJob):
        return True
    try:
        answer: object = is_failure(error)
    except BaseException:
        log.exception("is_failure failed; the error counts as a failure")
        return True
    return answer is None or bool(answer)  # None: a forgotten `return` must not let a job run for ever


def _backtrace_lines(wanted: Any) -> int:
    if wanted is None:
        return USUAL_BACKTRACE_LINES
    if wanted is True:
        return MAX_BACKTRACE_LINES
    return min(whole_number(wanted) or 0, MAX_BACKTRACE_LINES)
