"""Pushes jobs, from any number of threads, in the form that every version of Sidekiq and go-workers reads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import repeat, starmap
from typing import Any

from goworkers_py.api.job_writer import NO_TIES, JobWriter, Ties, WrittenJob
from goworkers_py.api.publisher import Answer, Publisher
from goworkers_py.api.worker_check import WorkerCheck
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.moments import moment
from goworkers_py.config.option_values import is_name
from goworkers_py.config.options import Config
from goworkers_py.config.parsers import without_password
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ArgumentError, BrokerUnreachable
from goworkers_py.core.limit import SlotClaim
from goworkers_py.links.atomic import holding
from goworkers_py.policy.uniqueness import uniqueness_of
from goworkers_py.wire import payload
from goworkers_py.wire.job_record import says_tracked
from goworkers_py.wire.message import Timestamps, new_jid
from goworkers_py.wire.needs import FIELD, KWARGS, field_of

BULK_SLICE = 1_000
# A push with a place in a limit takes ten times as long as another one, and the broker does nothing else meanwhile.
LIMITED_SLICE = 100

# A client link gets each job before its push, and returns the job, changed or not, or None to stop the push.
ClientLink = Callable[[dict[str, Any]], dict[str, Any] | None]


class Client:
    """Pushes jobs. `broker` is called at the first push, so that a program may call `configure` after it has imported
    its jobs."""

    def __init__(
        self,
        broker: Callable[[], Broker],
        links: Sequence[ClientLink] = (),
        config: Config | None = None,
        clock: Clock | None = None,
        on_later: Callable[[float], None] = lambda at: None,
    ) -> None:
        """`on_later` is called with the time of each push of scheduled jobs."""
        config = config or Config()
        self._broker = broker
        self._links = links
        self._timestamps = Timestamps(config.timestamps)
        self._address = without_password(config.broker)  # for the advice in an error
        self.home = config.home
        self._clock = clock or Clock()
        self._workers = WorkerCheck(lambda: broker().recoverable.live_processes())
        self._publisher = Publisher(broker, on_later)

    def push(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str | None:
        """Returns the jid, or None when a client link stopped the push."""
        return self.push_bulk(queue, job_class, [args], options, kwargs=kwargs)[0]

    def push_bulk(
        self,
        queue: str,
        job_class: str,
        rows: Iterable[Sequence[Any]],
        options: EnqueueOptions = NO_OPTIONS,
        needs: Collection[str] = (),
        kwargs: Mapping[str, Any] | None = None,
        ties: Ties = NO_TIES,
    ) -> list[str | None]:
        """Pushes one job for each row, 1,000 in a round trip. All rows are checked before the first is pushed.

        `needs` names the features that the worker must know, see `needs`; they are those of the push, not the user's.
        All the jobs get the same `kwargs`.
        """
        rows = list(rows)
        one_jid = options.said.get("jid")
        _require(one_jid is None or len(rows) == 1, "one jid cannot name several jobs")
        for number, args in enumerate(rows):
            check_args(args, "args" if len(rows) == 1 else f"rows[{number}]")
        if kwargs:
            check_kwargs(kwargs)
        needs = {*needs, *options.needs, *((KWARGS,) if kwargs else ())}
        now = self._clock.wall()
        later = _later(options, now)
        fields = self._fields(queue, job_class, options.fields_at(now if later is None else later), kwargs)
        if needs:
            fields[FIELD] = {**field_of(needs), **ties.members}
        if says_tracked(fields):
            self._broker().require(Capability.RECORDS)
        uniqueness, locks = uniqueness_of(options.said, job_class), ties.locks
        if uniqueness is not None:
            self._broker().require(Capability.LOCKS)
            locks = locks or [uniqueness.name(args, kwargs or {}) for args in rows]
        if ties.slots:
            self._broker().require(Capability.LIMITS)
        form = JobWriter(fields, self._times(now, later), uniqueness)
        jids: list[str | None] = []
        slice_size = LIMITED_SLICE if ties.slots else BULK_SLICE
        for start in range(0, len(rows), slice_size):
            end = start + slice_size
            ties_of_slice = Ties((locks or ())[start:end], ties.slots[start:end])
            jobs = self._jobs(form, rows[start:end], one_jid, ties_of_slice)
            answers = iter(self._push([job.push(later) for job in jobs if job is not None], needs, bool(one_jid)))
            jids += [None if job is None else _jid(job, next(answers)) for job in jobs]
        return jids

    def _push(self, pushes: Sequence[Push], needs: Collection[str], named: bool) -> Sequence[Answer]:
        """`named`: the caller has given the jid."""
        if needs and Capability.LEASES in self._broker().capabilities:  # only leases say which features workers know
            for queue in sorted({push.queue for push in pushes}):
                self._workers.check(queue, needs)
        if (held := holding(self.home)) is not None:
            held.add(self, [self._publisher.free(push) for push in pushes] if named else pushes)
        elif pushes:
            try:
                return self._publisher.push(pushes)
            except BrokerUnreachable as error:
                raise error.with_advice(self._address) from error
        return [True] * len(pushes)

    def publish(self, pushes: Sequence[Push]) -> object:
        """Publishes pushes that were held back."""
        return self._publisher.publish(pushes)

    def _fields(
        self,
        queue: str,
        job_class: str,
        options: dict[str, Any],
        kwargs: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        """The fields that all jobs of a push share."""
        for name, value in (("queue", queue), ("class", job_class)):
            _require(bool(value) and type(value) is str, f"{name} must be a name, is {value!r}")
            payload.check_plain(value, name)
        # Sidekiq always writes `retry`: without it go-workers would not retry at all.
        fields = {"retry": True, "queue": queue, "class": job_class, **options}
        if kwargs:
            fields["kwargs"] = dict(kwargs)
        return fields

    def _times(self, now: float, later: float | None) -> dict[str, Any]:
        written = self._timestamps.write(now)
        return {"created_at": written, "enqueued_at": written} if later is None else {"created_at": written}

    def _jobs(
        self, form: JobWriter, rows: Sequence[Sequence[Any]], jid: str | None, ties: Ties
    ) -> list[WrittenJob | None]:
        jids = [jid or new_jid() for _ in rows]
        locks, slots = ties.locks or (), ties.slots
        owns = form.owns(locks, slots)
        if not self._links:
            claims = form.claims(rows, jids, locks) if locks else repeat(None, len(rows))
            places = (
                [SlotClaim(slot, jid) for (slot, _), jid in zip(slots, jids, strict=True)] if slots else repeat(None)
            )
            return [
                WrittenJob(jid, form.queue, text, form.track(jid), claim, place)
                for jid, text, claim, place in zip(jids, form.as_texts(rows, jids, owns), claims, places, strict=False)
            ]
        jobs = starmap(form.as_dict, zip(rows, jids, owns or repeat(None, len(rows)), strict=True))
        # A link may change the job in place: a deep copy keeps the caller's objects and the other jobs unchanged.
        changed = (self._through_links(copy.deepcopy(job)) for job in jobs)
        return [None if job is None else form.written(job) for job in changed]

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
        if job.get("kwargs"):
            check_kwargs(job["kwargs"])
            field = job.get(FIELD, {})  # a link may have added kwargs
            job[FIELD] = {**field, **field_of({*field.get("needs", ()), KWARGS})}
        payload.check_plain(job, "job", payload.MAX_NESTING)
        return job


def _later(options: EnqueueOptions, now: float) -> float | None:
    """When the jobs are due, if that is not now."""
    at = options.said.get("at")
    at = None if at is None else moment(at)
    return at if at is not None and at > now else None


def _jid(job: WrittenJob, answer: Answer) -> str | None:
    return job.jid if answer is True else answer or None


def check_args(args: Any, name: str) -> None:
    _require(isinstance(args, list | tuple), f"{name} must be a list of arguments, is {type(args).__name__}")
    payload.check_plain(list(args), name)


def check_kwargs(kwargs: Any) -> None:
    _require(isinstance(kwargs, Mapping), f"kwargs must be a dict of arguments by name, is {type(kwargs).__name__}")
    payload.check_plain(dict(kwargs), "kwargs")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ArgumentError(message)
