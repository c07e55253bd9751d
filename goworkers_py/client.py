"""Pushing jobs, from any number of threads, in the form that every version of Sidekiq and go-workers reads."""

from __future__ import annotations

import dataclasses
import datetime
import math
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from goworkers_py import payload
from goworkers_py.brokers.base import Broker, Push
from goworkers_py.errors import ArgumentError
from goworkers_py.message import Timestamps
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
        _require(self.retry is None or _is_count(self.retry), f"retry must be a bool or a count, is {self.retry!r}")
        _require(
            self.retry_for is None or 0 <= self.retry_for <= 1e9, f"retry_for must be 0 to 1e9 s, is {self.retry_for!r}"
        )
        # A lone string is a sequence of strings too.
        tags_fit = self.tags is None or (not isinstance(self.tags, str) and all(isinstance(t, str) for t in self.tags))
        _require(tags_fit, f"tags must be a list of strings, is {self.tags!r}")
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
        if self.extra:
            payload.check_plain(self.extra, "extra", payload.MAX_NESTING)
        return {name: value for name, value in said.items() if value is not None} | (self.extra or {})


NO_OPTIONS = EnqueueOptions()


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
        self.on_schedule: Callable[[float], None] = lambda at: None

    def push(self, queue: str, job_class: str, args: Sequence[Any], options: EnqueueOptions = NO_OPTIONS) -> str | None:
        """The jid of the pushed job, or None when a client link stopped it."""
        return self.push_bulk(queue, job_class, [args], options)[0]

    def push_bulk(
        self, queue: str, job_class: str, rows: Iterable[Sequence[Any]], options: EnqueueOptions = NO_OPTIONS
    ) -> list[str | None]:
        """One job a row of arguments, 1,000 in a round trip. All rows are checked before the first is pushed."""
        now = self._wall()
        at = None if options.at is None else moment(options.at)
        later = at if at is not None and at > now else None
        template = self._template(queue, job_class, options)
        rows = list(rows)
        _require(options.jid is None or len(rows) == 1, "one jid cannot name several jobs")
        for number, args in enumerate(rows):
            check_args(args, "args" if len(rows) == 1 else f"rows[{number}]")
        jids: list[str | None] = []
        for start in range(0, len(rows), BULK_SLICE):
            jobs = [self._job(template, args, options, now, later) for args in rows[start : start + BULK_SLICE]]
            pushes = [Push(job["queue"], payload.write(job), later) for job in jobs if job is not None]
            if pushes:
                self._broker().push(pushes)
            jids += [None if job is None else job["jid"] for job in jobs]
        if later is not None:
            self.on_schedule(later)
        return jids

    def _template(self, queue: str, job_class: str, options: EnqueueOptions) -> dict[str, Any]:
        for name, value in (("queue", queue), ("class", job_class)):
            _require(bool(value) and type(value) is str, f"{name} must be a name, is {value!r}")
            payload.check_plain(value, name)
        retry = True if options.retry is None else options.retry
        return {"retry": retry, "queue": queue, "class": job_class, "args": [], **options.fields()}

    def _job(
        self, template: dict[str, Any], args: Sequence[Any], options: EnqueueOptions, now: float, later: float | None
    ) -> dict[str, Any] | None:
        job = {**template, "args": args, "jid": options.jid or secrets.token_hex(12)}
        job["created_at"] = self._timestamps.write(now)
        if later is None:
            job["enqueued_at"] = self._timestamps.write(now)
        return self._through_links(job) if self._links else job

    def _through_links(self, job: dict[str, Any]) -> dict[str, Any] | None:
        for link in self._links:
            changed = link(job)
            if changed is None:
                return None
            job = changed
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
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ArgumentError(message)
