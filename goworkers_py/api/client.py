"""Pushing jobs, from any number of threads, in the form that every version of Sidekiq and go-workers reads."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from goworkers_py.api.worker_check import WorkerCheck
from goworkers_py.brokers.contracts import Broker, Push
from goworkers_py.config.job_options import NO_OPTIONS, EnqueueOptions, is_name
from goworkers_py.config.moments import moment
from goworkers_py.core.errors import ArgumentError, BrokerUnreachable
from goworkers_py.wire import payload
from goworkers_py.wire.message import Timestamps, new_jid
from goworkers_py.wire.needs import FIELD, field_of

BULK_SLICE = 1_000

# A client-side link is given the job about to be pushed and returns it, changed or not, or None to stop the push.
ClientLink = Callable[[dict[str, Any]], dict[str, Any] | None]


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
        address: str = "",
    ) -> None:
        self._broker = broker
        self._links = links
        self._timestamps = timestamps or Timestamps()
        self._wall = wall
        self._address = address  # to show, so without a password
        self._workers = WorkerCheck(lambda: broker().workers())
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
        at, one_jid = options.said.get("at"), options.said.get("jid")
        at = None if at is None else moment(at)
        later = at if at is not None and at > now else None
        fields = self._fields(queue, job_class, options, needs)
        rows = list(rows)
        _require(one_jid is None or len(rows) == 1, "one jid cannot name several jobs")
        for number, args in enumerate(rows):
            check_args(args, "args" if len(rows) == 1 else f"rows[{number}]")
        times = {"created_at": self._timestamps.write(now)}
        if later is None:
            times["enqueued_at"] = times["created_at"]
        form = _Form(fields, times)
        jids: list[str | None] = []
        for start in range(0, len(rows), BULK_SLICE):
            jobs = [self._job(form, args, one_jid) for args in rows[start : start + BULK_SLICE]]
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
            try:
                self._broker().push(pushes)
            except BrokerUnreachable as error:
                raise error.with_advice(self._address) from error

    def _fields(self, queue: str, job_class: str, options: EnqueueOptions, needs: Collection[str]) -> dict[str, Any]:
        """Those that all jobs of a push have in common."""
        for name, value in (("queue", queue), ("class", job_class)):
            _require(bool(value) and type(value) is str, f"{name} must be a name, is {value!r}")
            payload.check_plain(value, name)
        # Sidekiq always writes `retry`: without it go-workers would not retry at all.
        fields = {"retry": True, "queue": queue, "class": job_class, **options.fields}
        return {**fields, FIELD: field_of(needs)} if needs else fields

    def _job(self, form: _Form, args: Sequence[Any], jid: str | None) -> _Written | None:
        jid = jid or new_jid()
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
            _require(is_name(job.get(name)), f"a client link made the job's {name} {job.get(name)!r}")
        check_args(job.get("args"), "args")
        payload.check_plain(job, "job", payload.MAX_NESTING)
        return job


def check_args(args: Any, name: str) -> None:
    _require(isinstance(args, list | tuple), f"{name} must be a list of arguments, is {type(args).__name__}")
    payload.check_plain(list(args), name)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ArgumentError(message)
