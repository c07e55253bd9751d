"""A job that was pushed, and one run of a job, as tests see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.values import dataclass
from goworkers_py.wire.message import Message, epoch


@dataclass(frozen=True, repr=False)
class EnqueuedJob:
    """A job as its payload tells it: `workers.testing.jobs()[0].args == [42]`."""

    message: Message
    at: float | None = None  # epoch seconds at which it is due, or died; None in a queue

    @classmethod
    def of(cls, payload: bytes, queue: str, at: float | None = None) -> EnqueuedJob | None:
        """None for a payload that is no job."""
        try:
            return cls(Message(payload, queue), at)
        except UnreadablePayload:
            return None

    @property
    def job_class(self) -> str:
        """The class on the wire, such as `Billing::InvoiceJob`."""
        return self.message.job_class

    @property
    def args(self) -> Any:
        """The positional arguments, as JSON."""
        return self.message.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments, as JSON; empty if there are none."""
        return self.message.get("kwargs") or {}

    @property
    def queue(self) -> str:
        """The queue in which the job waits, or will wait when it is due."""
        return self.message.queue or str(self.message.get("queue") or "")

    @property
    def jid(self) -> str:
        """The id of the job."""
        return self.message.jid

    @property
    def error(self) -> str:
        """The error of the last run that failed, as `ValueError: no such order`; empty if none has failed."""
        name, text = self.message.get("error_class"), self.message.get("error_message")
        return f"{name}: {text}" if name else ""

    @property
    def delay_s(self) -> float:
        """How long after its push it is due; 0 for a job that was not scheduled."""
        created_at = epoch(self.message.get("created_at"))
        # The push reads the clock twice.
        return 0.0 if self.at is None or created_at is None else round(self.at - created_at, 2)

    def __str__(self) -> str:
        later = f", {self.delay_s:.6g} s after its push" if self.at is not None else ""
        return f"{call_text(self.job_class, self.args, self.kwargs)} in queue {self.queue}{later}"

    def __repr__(self) -> str:
        return f"<EnqueuedJob {self}>"


@dataclass(frozen=True)
class JobRun:
    """One run: `[run.outcome for run in workers.testing.run_all()] == ["done"]`."""

    job: EnqueuedJob | None  # None for a payload that is no job
    outcome: str  # done, retry, dead, discard, requeue, reschedule, park, moved, unacknowledged
    error: BaseException | None = None  # that the job raised


def call_text(job_class: str, args: Any, kwargs: Mapping[str, Any]) -> str:
    """As the call would be written in Python."""
    positional = [repr(arg) for arg in args] if isinstance(args, list | tuple) else [f"args={args!r}"]
    return f"{job_class}({', '.join([*positional, *(f'{name}={value!r}' for name, value in kwargs.items())])})"
