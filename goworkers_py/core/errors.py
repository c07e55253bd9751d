"""Every exception of the package.

WorkersError
├── ConfigError             the configuration is wrong; the message names where and what to write instead
├── ArgumentError           a push was refused at the call (also a ValueError)
├── UnreadablePayload       a payload that is no job
├── UnknownJob              no Python code is registered for this class
├── PoisonPill              a job whose processes died under it, again and again
├── NeedsNewerRelease       a job needs of its worker what no worker that met it knows
├── TimeLimitExceeded       thrown into a job that runs longer than it may
├── BrokerError
│   ├── BrokerUnavailable   the server cannot serve now: try again
│   │   ├── BrokerUnreachable  no connection to it can be made
│   │   ├── BrokerFull      it is out of memory
│   │   └── LeaseGone       it does not know this process: the next beat makes its lease again
│   └── BrokerRefused       the server answered no, and will again until somebody mends it
│       ├── WrongType       a place of the broker holds what no program of the fleet wrote
│       └── NoSuchDatabase  the server has no database of the address's number (also a ConfigError)
└── JobControl              raised by a job to say how its run ends
    ├── RetryJob            run again at a time of the job's choosing
    ├── DiscardJob          drop it: no retry, not in the dead set
    └── KillJob             to the dead set now
"""

from __future__ import annotations

import datetime
import math


class WorkersError(Exception):
    """Base of all our exceptions."""


class ConfigError(WorkersError):
    pass


def as_word(error: WorkersError) -> list[object]:
    """For another process, which only tells people of it: what is wrong, and whose mistake it is."""
    return [isinstance(error, ConfigError), str(error)]


def of_word(word: list[object]) -> WorkersError:
    of_config, message = word
    return ConfigError(message) if of_config else WorkersError(message)


class ArgumentError(WorkersError, ValueError):
    pass


class UnreadablePayload(WorkersError):
    pass


class UnknownJob(WorkersError):
    pass


class PoisonPill(WorkersError):
    pass


class NeedsNewerRelease(WorkersError):
    pass


class TimeLimitExceeded(WorkersError):
    def __init__(self, message: str = "ran longer than it may") -> None:
        super().__init__(message)


class BrokerError(WorkersError):
    began = math.inf  # when the exchange that was cut short began, on the monotonic clock


class BrokerUnavailable(BrokerError):
    pass


class BrokerUnreachable(BrokerUnavailable):
    def with_advice(self, address: str) -> BrokerUnreachable:
        """For somebody who may not know that there is an address to set."""
        return BrokerUnreachable(
            f"{self}; start the server of {address}, or name another one with PYWORKERS_BROKER, --broker or "
            "configure(broker=...): redis://host:port/db, or embedded, which brings a server along"
        )


class LeaseGone(BrokerUnavailable):
    pass


class BrokerFull(BrokerUnavailable):
    pass


class BrokerRefused(BrokerError):
    pass


class NoSuchDatabase(BrokerRefused, ConfigError):
    """A mistake in the configuration when a program begins; a later one, of the server's, is waited out."""


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


# The name that a failure leaves in a job, and that people filter by, is the one by which programs import the class.
for _kind in [kind for kind in vars().copy().values() if isinstance(kind, type) and issubclass(kind, WorkersError)]:
    _kind.__module__ = "goworkers_py"
del _kind
