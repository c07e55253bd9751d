"""A message: one job's raw bytes, and the fields parsed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any

import simplejson

from goworkers_py.core import machine
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.levels import bare_list_of
from goworkers_py.features.message_parts import FeatureMessage
from goworkers_py.wire import payload

if TYPE_CHECKING:
    from goworkers_py.core.cancel_request import CancelRequest
    from goworkers_py.core.delivery import Delivery
    from goworkers_py.core.fence import Term
    from goworkers_py.core.home import HeldByRun, RunHome
    from goworkers_py.core.outcome import Outcome

# Sidekiq 8 writes integer milliseconds, every other program seconds. Epoch milliseconds passed this number in 1973,
# epoch seconds will in the year 5138.
_MILLISECONDS_FROM = 100_000_000_000
# A number from here on is no time, and may be too large for a float.
_NO_TIME_FROM = 1e18

_COUNTS = range(-(2**63), 2**63)

LONGEST_PROGRESS = 200  # characters of its text


class Message(FeatureMessage):
    """A job as its handler, its code and middleware get it.

    A middleware may change `args`, or assign `kwargs`, and the job sees the change. An acknowledgement, a retry or a
    burial always uses the bytes that were fetched.
    """

    __slots__ = (
        "args", "as_result", "begun_at", "cancel", "delivery", "expired", "failure", "fields", "held", "interrupt",
        "job_class", "keeps_result", "on_progress", "on_raised", "outcome", "queue", "raw", "shown", "term",
        "thread",
    )  # fmt: skip

    # Set when a worker begins the job, see `runtime.running.guard`.
    begun_at: float
    delivery: Delivery

    def __init__(self, raw: bytes, queue: str) -> None:
        self.fields = fields = payload.read(raw)  # not to be changed
        self.raw = raw
        self.queue = queue
        # The class that the producer meant: for ActiveJob the wrapped one.
        name = fields.get("wrapped") or fields.get("class")
        self.job_class: str = name if isinstance(name, str) else ""
        self.args: Any = fields.get("args")
        # --- of its run
        self.thread = 0  # set when the job's code begins
        # Set while the job's code runs: this thread may hold back its pushes. A RunHome: it has held back none.
        self.held: RunHome | HeldByRun | None = None
        self.interrupt: Callable[[], object] | None = None  # ends a run that is not Python code of the worker's thread
        self.expired = False  # set to true at the job's time limit, see `time_limit`
        self.cancel: CancelRequest | None = None  # set when the job is cancelled while it runs
        self.term: Term | None = None  # set where the job runs behind a fence, see `links.term`
        # Set where the result goes on with the outcome: makes JSON of it, or raises.
        self.as_result: Callable[[object], object] | None = None
        self.keeps_result = False  # set to true where the result is kept, if it is JSON
        self.on_progress: Callable[[str], None] | None = None  # set where progress is shown: it gets that as JSON
        self.shown = False  # set to true where programs of Ruby see the state of the job, and may cancel it
        # Set where a feature keeps something of the run: it gets the outcome of a run that raised, and adds effects.
        self.on_raised: Callable[[Outcome], Outcome] | None = None
        # Set when the run has failed: class and text of the error, which would keep its frames.
        self.failure = ("", "")
        self.outcome: Outcome | None = None  # set when the chain of a job with marks has ended, see `running.guard`

    def renew(self, raw: bytes) -> None:
        """Before the run: `raw` is the payload with the arguments of a later push."""
        self.raw, self.fields = raw, payload.read(raw)
        self.args = self.fields.get("args")

    @property
    def jid(self) -> str:
        """The id of the job; empty for a payload without one."""
        return payload.jid_of(self.fields)

    @property
    def epoch(self) -> int | None:
        """The epoch of the leader that runs the job, to fence what the job writes elsewhere: a store that has seen a
        higher epoch refuses it. None without `standby`."""
        return None if self.term is None else self.term.fence.epoch

    @property
    def cancelled(self) -> bool:
        """Whether the job is to end, because somebody has cancelled it while it runs, or because it was given to
        another process: `if workers.current_message().cancelled: return`. For jobs with `interrupt=False`; in any other
        job JobCancelled is raised."""
        if self.cancel is None:
            return False
        self.cancel.seen = True
        return True

    @property
    def lease_lost(self) -> bool:
        """Whether this process seemed dead for so long that the job was given to another one, which runs it again:
        `if workers.current_message().lease_lost: return`. The return value and the error of this run are ignored."""
        return self.cancel is not None and self.cancel.lost

    @property
    def kwargs(self) -> Any:
        """The job's keyword arguments, a dict: empty where the payload has none."""
        kwargs = self.fields.get("kwargs")
        return {} if kwargs is None else kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self.fields["kwargs"] = kwargs

    @property
    def retry_count(self) -> int | None:
        """How many retries have failed: None before the first failure, 0 after the first failure."""
        return whole_number(self.fields.get("retry_count"))

    @property
    def tags(self) -> list[str]:
        """The tags of the job. Values that are no texts are left out."""
        tags = self.fields.get("tags")
        return [tag for tag in map(_tag, tags) if tag] if isinstance(tags, list) else []

    @property
    def created_at(self) -> float | None:
        """When the job was first pushed, in epoch seconds."""
        return epoch(self.fields.get("created_at"))

    @property
    def enqueued_at(self) -> float | None:
        """When the job came into its queue the last time, in epoch seconds."""
        return epoch(self.fields.get("enqueued_at"))

    @property
    def failed_at(self) -> float | None:
        """When the job failed for the first time, in epoch seconds; None before that."""
        return epoch(self.fields.get("failed_at"))

    def _time_in(self, field: str) -> float | None:
        return epoch(self.fields.get(field))

    def progress(self, at: float, total: float | None = None, text: str = "") -> None:
        """Tells how far a tracked job has got: `workers.current_message().progress(42, 100, "page 42")`. Everybody can
        read it by `workers.status(jid).progress`, within a second. Does nothing in a job that is not tracked."""
        if (on_progress := self.on_progress) is not None:
            of_all = None if total is None else float(total)
            progress = [float(at), of_all, str(text)[:LONGEST_PROGRESS], machine.time()]
            payload.check_plain(progress, "progress")
            on_progress(payload.encode(progress))

    def __getitem__(self, field: str) -> Any:
        return self.fields[field]

    def get(self, field: str, default: Any = None) -> Any:
        """The value of a field of the payload: `message.get("error_class")`."""
        return self.fields.get(field, default)

    def __contains__(self, field: object) -> bool:
        return field in self.fields

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def to_json(self) -> str:
        return simplejson.dumps(self.fields, ensure_ascii=False, allow_nan=True)  # Python reads 1e400 as infinity

    def __repr__(self) -> str:
        return f"<Message {self.job_class} jid={self.jid} queue={self.queue}>"


_current: ContextVar[Message | None] = ContextVar("goworkers_py_current_message", default=None)


def current_message() -> Message | None:
    """The job that this thread (or asyncio task) is running now; None outside of a job."""
    return _current.get()


set_current = _current.set
reset_current = _current.reset


def describe_job(raw: bytes, queue: str) -> str:
    """Class, jid and queue of a payload, for log lines. A bare body has neither class nor jid."""
    if bare_list_of(queue):
        return f"a body queue={queue}"
    try:
        message = Message(raw, queue)
    except UnreadablePayload:
        return f"an unreadable payload queue={queue}"
    return f"class={message.job_class or '?'} jid={message.jid or '?'} queue={queue}"


def _tag(tag: Any) -> str:
    """Empty for what can be no tag, such as a number of very many digits, which Python does not write."""
    return tag if isinstance(tag, str) else str(tag) if whole_number(tag) is not None else ""


def new_jid() -> str:
    return machine.token_hex(12)


def jid_where_missing(message: Message) -> dict[str, str]:
    """A new jid for a job without one, spliced in before the job goes into a sorted set. Equal bytes are one entry
    there, so two jobs without a jid could become one."""
    return {} if message.jid else {"jid": new_jid()}


def whole_number(value: Any) -> int | None:
    """The value if it is an int of 64 bits, else None. None for a bool too, which is an int to Python."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _COUNTS else None


def epoch(value: Any) -> float | None:
    """Epoch seconds from float seconds, integer milliseconds or Go's `2006-01-02 15:04:05 UTC`."""
    if type(value) is float and -_MILLISECONDS_FROM < value < _MILLISECONDS_FROM:
        return value  # the usual case first: this runs for every job
    if isinstance(value, str):
        return _epoch_from_go(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= _NO_TIME_FROM:
        return None
    return value / 1000 if value >= _MILLISECONDS_FROM else float(value)


def _epoch_from_go(text: str) -> float | None:
    try:
        return datetime.strptime(f"{text.removesuffix(' UTC')}+0000", "%Y-%m-%d %H:%M:%S%z").timestamp()
    except ValueError:
        return None


class Timestamps:
    """How a fleet writes `created_at` and the other times of a job: as float seconds, or as Sidekiq 8's integer
    milliseconds."""

    def __init__(self, style: str = "seconds") -> None:
        self._milliseconds = style == "ms"

    def write(self, at: float) -> float | int:
        return int(at * 1000) if self._milliseconds else float(at)
