"""Pushing jobs, from any number of threads, in the form that every version of Sidekiq and go-workers reads."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from goworkers_py import payload
from goworkers_py.brokers.base import Broker, Push
from goworkers_py.errors import ArgumentError
from goworkers_py.message import Timestamps
from goworkers_py.needs import FIELD, Workers, field_of
from goworkers_py.registry import JobSpec

BULK_SLICE = 1_000

# A client-side link is given the job about to be pushed and returns it, changed or not, or None to stop the push.
ClientLink = Callable[[dict[str, Any]], dict[str, Any] | None]

Delay = float | datetime.timedelta
Moment = float | datetime.datetime


@dataclass(frozen=True, slots=True)
class EnqueueOptions:
    """What a push may say of its job. None: not said, so the job's own code or the reader's default decides."""

    retry: bool | int | None = None
    retry_count: int | None = None
    retry_for: float | None = None
    retry_queue: str | None = None
    dead: bool | None = None
    backtrace: bool | int | None = None
    tags: Sequence[str] | None = None
    timeout: float | None = None  # seconds that a run may take
    deadline: Moment | None = None  # when a run must be over
    jid: str | None = None
    at: Moment | None = None
    extra: dict[str, Any] | None = None  # further top-level fields, for other programs that read the job

    def with_defaults(self, spec: JobSpec) -> EnqueueOptions:
        """What the job's code says of its failures goes on the wire too, so that other programs respect and show it."""
        said = spec.options
        return dataclasses.replace(
            self,
            retry=said.retry if self.retry is None else self.retry,
            dead=False if self.dead is None and not said.dead else self.dead,
            backtrace=(said.backtrace or None) if self.backtrace is None else self.backtrace,
            retry_queue=self.retry_queue or said.retry_queue or None,
            tags=self.tags if self.tags is not None else (list(spec.tags) or None),
        )

    def fields(self) -> dict[str, Any]:
        """As they stand in the JSON. Raises ArgumentError for what a reader would choke on."""
        if self is NO_OPTIONS:
            return {}
        for name, (fits, wanted) in _OPTIONS.items():
            value = getattr(self, name)
            if value is not None and not fits(value):
                raise ArgumentError(f"{name} must be {wanted}, is {value!r}")
        said = {
            "retry_count": self.retry_count or None,
            "retry_for": None if self.retry_for is None else int(self.retry_for),
            "retry_queue": self.retry_queue,
            "dead": self.dead,
            "backtrace": self.backtrace,
            "timeout": self.timeout,
            "deadline": None if self.deadline is None else moment(self.deadline),
            "tags": None if self.tags is None else list(self.tags),
        }
        fields = {name: value for name, value in said.items() if value is not None}
        return fields | self._extra_fields() if self.extra else fields

    def _extra_fields(self) -> dict[str, Any]:
        extra = self.extra or {}
        for name in extra:
            _require(name not in _OPTIONS, f"extra: {name} is an option of its own")
            _require(name not in _SET_BY_PUSH, f"extra: {name} is set by the push itself")
        payload.check_plain(extra, "extra", payload.MAX_NESTING)
        return extra


NO_OPTIONS = EnqueueOptions()


class _Written(NamedTuple):
    jid: str
    queue: str
    payload: bytes


class _Form:
    """What the jobs of one push have in common, written once: they differ in their arguments and jids only."""

    def __init__(self, fields: dict[str, Any], times: dict[str, Any]) -> None:
        self.queue: str = fields["queue"]
        self._fields = fields
        self._times = times
        self._head = f'{payload.encode(fields)[:-1]},"args":'
        self._tail = f",{payload.encode(times)[1:]}"

    def as_text(self, args: Sequence[Any], jid: str) -> bytes:
        return f'{self._head}{payload.encode(args)},"jid":{payload.encode(jid)}{self._tail}'.encode()

    def as_dict(self, args: Sequence[Any], jid: str) -> dict[str, Any]:
        return {**self._fields, "args": list(args), "jid": jid, **self._times}


class Client:
    """`broker` is asked for at the first push, so that a program may configure itself after importing its jobs."""

    def __init__(
        self,
        broker: Callable[[], Broker],
        links: Sequence[ClientLink] = (),
        timestamps: Timestamps | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._broker = broker
        self._links = links
        self._timestamps = timestamps or Timestamps()
        self._wall = wall
        self._workers = Workers(lambda: broker().workers())
        self.on_schedule: Callable[[float], None] = lambda at: None

    def push(self, queue: str, job_class: str, args: Sequence[Any], options: EnqueueOptions = NO_OPTIONS) -> str | None:
        """The jid of the pushed job, or None when a client link stopped it."""
        return self.push_bulk(queue, job_class, [args], options)[0]

    def push_bulk(
        self,
        queue: str,
        job_class: str,
        rows: Iterable[Sequence[Any]],
        options: EnqueueOptions = NO_OPTIONS,
        needs: Collection[str] = (),
    ) -> list[str | None]:
        """One job a row of arguments, 1,000 in a round trip. All rows are checked before the first is pushed.

        `needs` names the features that the worker must know, see `needs`; they are those of the push, not the user's.
        """
        now = self._wall()
        at = None if options.at is None else moment(options.at)
        later = at if at is not None and at > now else None
        fields = self._fields(queue, job_class, options, needs)
        rows = list(rows)
        _require(options.jid is None or len(rows) == 1, "one jid cannot name several jobs")
        for number, args in enumerate(rows):
            check_args(args, "args" if len(rows) == 1 else f"rows[{number}]")
        times = {"created_at": self._timestamps.write(now)}
        if later is None:
            times["enqueued_at"] = times["created_at"]
        form = _Form(fields, times)
        jids: list[str | None] = []
        for start in range(0, len(rows), BULK_SLICE):
            jobs = [self._job(form, args, options.jid) for args in rows[start : start + BULK_SLICE]]
            self._push([Push(job.queue, job.payload, later) for job in jobs if job is not None], needs)
            jids += [None if job is None else job.jid for job in jobs]
        if later is not None:
            self.on_schedule(later)
        return jids

    def _push(self, pushes: Sequence[Push], needs: Collection[str]) -> None:
        if needs:
            for queue in sorted({push.queue for push in pushes}):
                self._workers.check(queue, needs)
        if pushes:
            self._broker().push(pushes)

    def _fields(self, queue: str, job_class: str, options: EnqueueOptions, needs: Collection[str]) -> dict[str, Any]:
        """Those that all jobs of a push have in common."""
        for name, value in (("queue", queue), ("class", job_class)):
            _require(bool(value) and type(value) is str, f"{name} must be a name, is {value!r}")
            payload.check_plain(value, name)
        retry = True if options.retry is None else options.retry
        fields = {"retry": retry, "queue": queue, "class": job_class, **options.fields()}
        return {**fields, FIELD: field_of(needs)} if needs else fields

    def _job(self, form: _Form, args: Sequence[Any], jid: str | None) -> _Written | None:
        jid = jid or secrets.token_hex(12)
        if not self._links:
            return _Written(jid, form.queue, form.as_text(args, jid))
        # The links may change what they are given: it must be neither the caller's nor another job's.
        job = self._through_links(copy.deepcopy(form.as_dict(args, jid)))
        return None if job is None else _Written(job["jid"], job["queue"], payload.write(job))

    def _through_links(self, job: dict[str, Any]) -> dict[str, Any] | None:
        for link in self._links:
            changed = link(job)
            if changed is None:
                return None
            _require(isinstance(changed, dict), f"a client link must return the job or None, returned {changed!r}")
            job = changed
        for name in ("queue", "class", "jid"):
            _require(_is_name(job.get(name)), f"a client link made the job's {name} {job.get(name)!r}")
        check_args(job.get("args"), "args")
        payload.check_plain(job, "job", payload.MAX_NESTING)
        return job


def check_args(args: Any, name: str) -> None:
    _require(isinstance(args, list | tuple), f"{name} must be a list of arguments, is {type(args).__name__}")
    payload.check_plain(list(args), name)


def moment(at: Moment) -> float:
    """Epoch seconds."""
    seconds = at.timestamp() if isinstance(at, datetime.datetime) else at
    _require(_is_number(seconds), f"a time must be epoch seconds or a datetime, is {at!r}")
    return float(seconds)


def after(delay: Delay, now: float) -> float:
    seconds = delay.total_seconds() if isinstance(delay, datetime.timedelta) else delay
    _require(_is_number(seconds), f"a delay must be seconds or a timedelta, is {delay!r}")
    return now + seconds


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_ANY_TIME <= value <= _ANY_TIME


def _is_count(value: Any) -> bool:
    """A bool is one too: none, or the reader's default."""
    return isinstance(value, int) and 0 <= value <= _ANY_COUNT


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and payload.encodable(value)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ArgumentError(message)


_ANY_TIME = 1e12  # seconds: what is beyond was meant as milliseconds
_ANY_COUNT = 1_000_000_000
# What EnqueueOptions accepts, and how to say it.
_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "retry": (_is_count, "a bool or a count"),
    "retry_count": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "retry_for": (lambda value: _is_number(value) and 0 <= value <= 1e9, "0 to 1e9 s"),
    "retry_queue": (_is_name, "a name"),
    "dead": (lambda value: isinstance(value, bool), "a bool"),
    "backtrace": (_is_count, "a bool or a count"),
    # A lone string is a sequence of strings too.
    "tags": (lambda value: isinstance(value, list | tuple) and all(map(_is_name, value)), "a list of strings"),
    "timeout": (lambda value: _is_number(value) and value > 0, "seconds above 0"),
    "deadline": (
        lambda value: _is_number(value) or isinstance(value, datetime.datetime),
        "epoch seconds or a datetime",
    ),
    "jid": (_is_name, "a text"),
    "extra": (lambda value: isinstance(value, dict), "a dict of further fields"),
}
_SET_BY_PUSH = ("class", "args", "queue", "at", "created_at", "enqueued_at", FIELD)
