"""What becomes of a failed run, by Sidekiq 8's rules: the arithmetic, and the fields that a failure leaves in the job.

Pure: given the job, the error, the time and a random source, the answer is the same.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import os
import random
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from goworkers_py.config.job_options import CodeOptions, RetryIn
from goworkers_py.core.errors import DiscardJob, KillJob, RetryJob, WorkersError
from goworkers_py.core.outcome import DISCARD, Dead, Outcome, Retry
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message, Timestamps, epoch, jid_where_missing, whole_number

log = logging.getLogger(__name__)

MAX_ERROR_MESSAGE = 10_000
# A deep recursion repeats itself: the ends of its trace say all.
MAX_BACKTRACE_LINES = 200
# Of a job that does not say how many: enough to get from a library's inner frames to the job's own line.
USUAL_BACKTRACE_LINES = 20

# A count from a stranger's payload may be any number; this many steps is a delay of 30,000 years.
_MOST_STEPS = 1_000
_LONGEST_DELAY_S = 1e12

_OUR_FOLDER = str(Path(__file__).parents[1])
_CALLS_THE_JOB = str(Path(__file__).parents[1] / "links" / "perform.py")
_ASYNCIO = str(Path(os.__file__).parent / "asyncio")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Turns a failed run into its outcome."""

    max_retries: int = 25
    timestamps: Timestamps = field(default_factory=Timestamps)
    random_below: Callable[[int], int] = random.randrange

    def decide(self, message: Message, error: BaseException, options: CodeOptions, now: float) -> Outcome:
        limit = self._limit(message, options)
        count = next_count(message)
        if isinstance(error, DiscardJob):
            return DISCARD
        if limit is None:
            limit = 0
            if not isinstance(error, KillJob):
                return DISCARD
        wish = self._delay(error, options, count, now)
        if wish == "discard":
            return DISCARD
        dies = wish == "kill" or self._exhausted(message, options, count, limit, now)
        if dies and not wants_burial(message, options):
            return DISCARD
        rewritten = self._rewrite(message, self._failure_fields(message, error, options, now, count))
        if dies:
            return Dead(rewritten)
        flaw = payload.ruby_flaw(rewritten)
        if flaw:
            log.warning("cannot be retried, for Ruby would lose it: %s", flaw)
            return Dead(rewritten)  # whatever its options say of burials: this one nobody has asked for
        return Retry(now + float(wish), rewritten)

    def _limit(self, message: Message, options: CodeOptions) -> int | None:
        """How many retries; None for a job that wants neither a retry nor a grave."""
        wanted = _said("retry", message, options, True)
        if wanted is False:
            return None
        number = whole_number(wanted)
        if number is not None:
            return number
        # go-workers2 says true and puts the number beside it; Sidekiq takes any other truthy value for true.
        go_limit = whole_number(_said("retry_max", message, options))
        return go_limit if go_limit is not None and go_limit >= 0 else self.max_retries

    def _exhausted(self, message: Message, options: CodeOptions, count: int, limit: int, now: float) -> bool:
        retry_for = _said("retry_for", message, options)
        if isinstance(retry_for, int | float) and not isinstance(retry_for, bool):
            first_failure = message.failed_at if message.failed_at is not None else now
            return now - first_failure > retry_for  # in this order any number fits
        return count >= limit

    def _delay(self, error: BaseException, options: CodeOptions, count: int, now: float) -> float | str:
        """Seconds until the next run, or "discard" or "kill"."""
        if isinstance(error, KillJob):
            return "kill"
        if isinstance(error, RetryJob):
            asked = error.delay if error.delay is not None else max(0.0, (error.at or 0.0) - now)
            if math.isfinite(asked):  # it was when the error was made
                return asked
        wish = _ask(options.get("retry_in"), count, error)
        if isinstance(wish, str):
            return wish
        steps = min(max(count, 0), _MOST_STEPS)
        base = wish if wish is not None else steps**4 + 15
        return base + self.random_below(10 * (steps + 1))

    def _failure_fields(
        self, message: Message, error: BaseException, options: CodeOptions, now: float, count: int
    ) -> dict[str, Any]:
        queue = _text(message.get("retry_queue")) or options.get("retry_queue") or message.queue
        fields = failure_fields(message, error, self.timestamps.write(now)) | {"queue": queue, "retry_count": count}
        lines = _backtrace_lines(_said("backtrace", message, options))
        if lines:
            fields["error_backtrace"] = pack_backtrace(backtrace(error, lines))
        return fields

    def _rewrite(self, message: Message, changes: dict[str, Any]) -> bytes:
        # Sidekiq's page breaks on Go's text times, and Sidekiq takes an `at` for a job still to be scheduled.
        for name in ("failed_at", "retried_at", "enqueued_at", "created_at"):
            value = message.get(name)
            if name not in changes and isinstance(value, str):
                at = epoch(value)
                changes[name] = self.timestamps.write(at) if at is not None else None
        # The process survived this run, so what it was suspected of is past.
        return payload.splice(message.raw, changes, drop=("at", "recovered"))


def failure_fields(message: Message, error: BaseException, at: float) -> dict[str, Any]:
    """The fields in which Sidekiq keeps a job's last failure. The count of its retries stays as it is."""
    return {
        "queue": message.queue,
        "error_message": describe(error),
        "error_class": error_class(error),
        "retry_count": message.retry_count or 0,
        "failed_at" if message.retry_count is None else "retried_at": at,
        **jid_where_missing(message),
    }


def _said(name: str, message: Message, options: Mapping[str, object], default: object = None) -> Any:
    """By the payload, else by the job's code."""
    of_payload = message.get(name)
    return of_payload if of_payload is not None else options.get(name, default)


def next_count(message: Message) -> int:
    """The retry count of the job if this run of it fails."""
    # Sidekiq's "retry now" takes one off, so that -1 is a count too.
    return 0 if message.retry_count is None else message.retry_count + 1


def _text(value: Any) -> str:
    return value if isinstance(value, str) and payload.encodable(value) else ""


def wants_burial(message: Message, options: CodeOptions) -> bool:
    return _said("dead", message, options) is not False


def _ask(retry_in: RetryIn, count: int, error: BaseException) -> float | str | None:
    try:
        wish = retry_in(count, error) if callable(retry_in) else retry_in
    except DiscardJob:
        return "discard"
    except KillJob:
        return "kill"
    except BaseException:
        log.exception("retry_in failed; using the default delay")
        return None
    if wish is None or (isinstance(wish, str) and wish in ("discard", "kill")):
        return wish
    if isinstance(wish, int | float) and 0 < wish <= _LONGEST_DELAY_S:
        return wish
    log.warning("retry_in says %r, neither seconds above 0 nor 'discard' nor 'kill'; using the default delay", wish)
    return None


def error_class(error: BaseException) -> str:
    """The name of the error's class with its module, whatever the class says of itself."""
    kind = type(error)
    # As `type` knows them: a metaclass may have other ideas.
    module, name = (_TYPE[attribute].__get__(kind) for attribute in ("__module__", "__qualname__"))
    module, name = (_storable(text) if isinstance(text, str) else "?" for text in (module, name))
    return name if module == "builtins" else f"{module}.{name}"


def describe(error: BaseException) -> str:
    """The error's text, whatever it is: short enough to store, and encodable."""
    try:
        text = str(error)
    except BaseException as worse:
        text = f"(its message cannot be shown: str() raised {error_class(worse).rpartition('.')[2]})"
    return _storable(text)


def in_place_of(error: BaseException) -> WorkersError:
    """A plain error that tells of one which raises even where it is only looked at."""
    return WorkersError(f"{error_class(error)}: {describe(error)}").with_traceback(_TRACEBACK(error))


def _storable(text: str) -> str:
    # By the methods of `str` itself: a text of a subclass of `str` could do anything in its own.
    return str.__getitem__(text, slice(MAX_ERROR_MESSAGE)).encode("utf-8", "replace").decode("utf-8")


_TYPE = type.__dict__
_TRACEBACK: Callable[[BaseException], TracebackType | None] = BaseException.__dict__["__traceback__"].__get__


def _backtrace_lines(wanted: Any) -> int:
    if wanted is None:
        return USUAL_BACKTRACE_LINES
    if wanted is True:
        return MAX_BACKTRACE_LINES
    return min(whole_number(wanted) or 0, MAX_BACKTRACE_LINES)


def own_traceback(error: BaseException) -> TracebackType | None:
    """From the job's own frames on. Only the last of ours, where there are none of the job's."""
    links = list(_links(_TRACEBACK(error)))
    begin = next((n + 1 for n in reversed(range(len(links))) if _file_of(links[n]) == _CALLS_THE_JOB), 0)
    theirs = (link for link in links[begin:] if not _file_of(link).startswith((_OUR_FOLDER, _ASYNCIO)))
    return next(theirs, links[-1] if links else None)


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _file_of(link: TracebackType) -> str:
    return link.tb_frame.f_code.co_filename


def backtrace(error: BaseException, most: int) -> list[str]:
    """Innermost call first, in the shape of Ruby's, without our own frames around the job."""
    links = list(_links(own_traceback(error)))
    theirs = deque((link for link in links if not _file_of(link).startswith(_OUR_FOLDER)), most) or links
    lines = [f"{_file_of(link)}:{link.tb_lineno}:in `{link.tb_frame.f_code.co_name}'" for link in reversed(theirs)]
    return [line.encode("utf-8", "replace").decode("utf-8") for line in lines[:most]]


def pack_backtrace(lines: list[str]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(lines).encode())).decode()


def unpack_backtrace(stored: Any) -> list[str]:
    """From any Sidekiq's form but 6.0.1's Ruby Marshal: packed, or the plain list of the oldest."""
    if isinstance(stored, str):
        try:
            stored = json.loads(zlib.decompress(base64.b64decode(stored)))
        except (ValueError, zlib.error):
            return []
    return [str(line) for line in stored] if isinstance(stored, list) else []
