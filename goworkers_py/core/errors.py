"""Every exception of the package, except two: `DeclaredDead` of `brokers.contracts.recoverable` stays in the daemon,
and `ProcessKilled` of `testing.steps` in a test.

WorkersError
├── ConfigError             the configuration is wrong; the message says where, and what to write instead
├── PushError               may end a push, and says which of its jobs were pushed before
│   ├── ArgumentError       a push was refused at the call (also a ValueError)
│   │   ├── TooManyHeld     `atomic` cannot hold back this push
│   │   ├── NotHere         a process lacks the pool or the queue that a command names
│   │   └── ArgumentsDoNotFit  a job's arguments do not fit its function; retried for ten minutes, then dead
│   ├── DuplicateJob        a push names a jid whose job is still kept, or another job holds the lock of a unique one
│   ├── BatchEnded          a push or a block would add jobs to a batch that has ended, was cancelled or is not there
│   └── BrokerError         the broker failed, at any call
│       ├── BrokerUnavailable   the server cannot serve now; a later try may succeed
│       │   ├── BrokerUnreachable  no connection to the server can be made
│       │   ├── BrokerFull      the server is out of memory
│       │   └── LeaseGone       the server has no lease of this process; the next beat creates one
│       └── BrokerRefused       the server refused, and will refuse until an operator changes something
│           ├── Fenced          this process leads no more, so the server refuses what it writes
│           ├── WrongType       a key holds a type of value that no program of the fleet writes there
│           └── NoSuchDatabase  the server has no database with the number in the address (also a ConfigError)
├── UnreadablePayload       a payload is not a job in Sidekiq's format
├── UnknownJob              no Python code is registered for this class
├── PoisonPill              a job killed its processes, proven by a death in quarantine
├── BrokenOff               a run ended by an exception outside of the job's code: counted as a failure
├── NeedsNewerRelease       a job needs a feature that the workers which fetched it do not support
├── TimeLimitExceeded       thrown into a job at its time limit
├── LimitTimeout            a block of code got no place in a limit in time (also a TimeoutError)
├── NoResult                there is no result to wait for, or it was not kept
├── JobFailed               `result` of a job that failed for good
├── JobCancelled            thrown into a job that was cancelled; `result` of one that was cancelled, deleted or expired
│   └── LeaseLost           thrown into a job that was given to another process, because this one seemed dead
└── JobControl              raised by a job to say how its run ends
    ├── RetryJob            retry at a time that the job chooses
    ├── DiscardJob          drop the job: no retry, not in the dead set
    └── KillJob             move the job to the dead set now
        └── UnreadableBody  the codec of a message cannot decode its body, and no later try could
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence


class WorkersError(Exception):
    """Base of all exceptions of this package."""


class ConfigError(WorkersError):
    pass


def error_to_json(error: WorkersError) -> list[object]:
    """Whether the error is a ConfigError, and its message: another process reports it by these two."""
    return [isinstance(error, ConfigError), str(error)]


def error_from_json(sent: list[object]) -> WorkersError:
    """The error that `error_to_json` described."""
    of_config, message = sent
    return ConfigError(message) if of_config else WorkersError(message)


class PushError(WorkersError):
    """Of a push of several jobs, `pushed` has the jid of each row that was pushed before the error, as the call would
    have returned it, and None for the others. After BrokerUnavailable, up to 1,000 rows behind these may have been
    pushed too. It is empty where no job was pushed before, or the error did not come from a push."""

    pushed: Sequence[str | None] = ()
    places: frozenset[int] = frozenset()  # which pushes of the call to the broker were done

    def within(self, asked: Sequence[int], done: Iterable[int]) -> None:
        """Tells of a whole call, of which only the pushes at `asked` were asked now; those at `done` were pushed
        before."""
        self.places = frozenset(asked[place] for place in self.places).union(done)


class ArgumentError(PushError, ValueError):
    pass


class TooManyHeld(ArgumentError):
    pass


class NotHere(ArgumentError):
    pass


class ArgumentsDoNotFit(ArgumentError):
    """Raised before a run, not at a push: the worker may have another release of the code than the producer."""


class UnreadablePayload(WorkersError):
    pass


class UnknownJob(WorkersError):
    pass


class PoisonPill(WorkersError):
    pass


class BrokenOff(WorkersError):
    """The cause is a fault in code around the job, such as a middleware, or an exception that was thrown into it."""


class NeedsNewerRelease(WorkersError):
    pass


class TimeLimitExceeded(WorkersError):
    def __init__(self, message: str = "the job ran longer than its time limit") -> None:
        super().__init__(message)


class DuplicateJob(PushError):
    """`jid` and `state` are those of the job that is there. `lock` is the name of the lock that it holds, if the job
    that was to be pushed is unique; its state is empty then, because nobody has looked."""

    def __init__(self, jid: str, state: str = "", lock: str = "") -> None:
        there = f"holds the lock {lock}" if lock else f"is {state}"
        super().__init__(f"job {jid} {there}: no second one was pushed")
        self.jid, self.state, self.lock = jid, state, lock


class LimitTimeout(WorkersError, TimeoutError):
    """A block of code got no place in the limit `limit` within its time."""

    def __init__(self, limit: str, timeout_s: float) -> None:
        self.limit = limit
        hint = f"`pyworkers limits show {limit}` tells who has them"
        super().__init__(f"limit {limit}: no place was free within {timeout_s:g} s; {hint}")


class BatchEnded(PushError):
    def __init__(self, bid: str) -> None:
        super().__init__(f"batch {bid} takes no jobs: it has ended, was cancelled, or is not there")
        self.bid = bid


class NoResult(WorkersError):
    pass


class JobFailed(WorkersError):
    """`error_class` and `error_message` are those of the exception that the job raised last. They are empty when people
    have killed the job before it failed."""

    def __init__(self, jid: str, error_class: str, error_message: str) -> None:
        failed = f"failed: {error_class}: {error_message}" if error_class else "was killed before it failed"
        super().__init__(f"job {jid} {failed}")
        self.jid, self.error_class, self.error_message = jid, error_class, error_message


class JobCancelled(WorkersError):
    def __init__(self, message: str = "the job was cancelled") -> None:
        super().__init__(message)


class LeaseLost(JobCancelled):
    def __init__(
        self, message: str = "the lease of this process has expired, and the job was given to another"
    ) -> None:
        super().__init__(message)


class BrokerError(PushError):
    began = math.inf  # monotonic time at which the exchange that failed began


class BrokerUnavailable(BrokerError):
    """Where the reply was lost, nobody knows whether the server has done it. We repeat no push: the caller decides."""


class BrokerUnreachable(BrokerUnavailable):
    advised = False  # the text says already what to do

    def with_advice(self, address: str, settings: str) -> BrokerUnreachable:
        """The same error, and how to set the address: for a user who may not know of the `settings`."""
        if self.advised:
            return self
        advised = BrokerUnreachable(
            f"{self}; start the server of {address}, or set another address with {settings}: redis://host:port/db, or "
            "embedded, which starts a server of its own"
        )
        advised.advised, advised.places = True, self.places
        return advised


class LeaseGone(BrokerUnavailable):
    pass


class BrokerFull(BrokerUnavailable):
    pass


class BrokerRefused(BrokerError):
    # The server refused the connection, so nothing was sent over it: an earlier call without an answer may be done.
    at_login = False


def is_no_answer(error: BaseException) -> bool:
    """Whether a call that ended so may be done, or an earlier copy of it: the broker was not heard, or heard only as it
    refused the connection."""
    return isinstance(error, BrokerUnavailable) or (isinstance(error, BrokerRefused) and error.at_login)


class Fenced(BrokerRefused):
    """Ends the work of a leader at once: nothing is tried again. Another process leads, or will soon."""


class NoSuchDatabase(BrokerRefused, ConfigError):
    """At a program's start: a mistake in its configuration. Later: a fault of the server, waited out as an outage."""


class WrongType(BrokerRefused):
    pass


class JobControl(WorkersError):
    pass


class RetryJob(JobControl):
    """Counts as a failed run: the job's retry limit still holds."""

    def __init__(
        self,
        message: str = "",
        *,
        delay: float | datetime.timedelta | None = None,
        at: float | datetime.datetime | None = None,
    ) -> None:
        if (delay is None) == (at is None):
            raise TypeError("RetryJob takes either delay (seconds from now) or at (epoch seconds or a datetime)")
        super().__init__(message or "the job asked to be retried")
        self.delay = delay.total_seconds() if isinstance(delay, datetime.timedelta) else delay
        self.at = at.timestamp() if isinstance(at, datetime.datetime) else at
        if not all(math.isfinite(seconds) for seconds in (self.delay, self.at) if seconds is not None):
            raise ValueError(f"RetryJob cannot wait for {delay if at is None else at!r}")


class DiscardJob(JobControl):
    def __init__(self, message: str = "") -> None:
        super().__init__(message or "the job asked to be discarded")


class KillJob(JobControl):
    def __init__(self, message: str = "") -> None:
        super().__init__(message or "the job asked to be killed")


class UnreadableBody(KillJob):
    pass


# A failure writes the name of its class into the job, and people filter by that name: let it be goworkers_py.NAME, by
# which programs import the class.
for _kind in [kind for kind in vars().copy().values() if isinstance(kind, type) and issubclass(kind, WorkersError)]:
    _kind.__module__ = "goworkers_py"
del _kind
