"""Pushes jobs, from any number of threads, in the form that every version of Sidekiq and go-workers reads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from goworkers_py.api.argument_checks import check_args, check_kwargs, require
from goworkers_py.api.client_links import ClientLink, through_links
from goworkers_py.api.job_writer import NO_TIES, Ties, WrittenJob
from goworkers_py.api.job_writers import JobWriters
from goworkers_py.api.publisher import Answer, Publisher
from goworkers_py.api.push_form import PushForm, of_rows
from goworkers_py.api.worker_check import WorkerCheck
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.moments import moment
from goworkers_py.config.options import Config
from goworkers_py.config.parsers import without_password
from goworkers_py.config.partitions import settings_of_broker
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ArgumentError, BrokerError, BrokerUnreachable, DuplicateJob
from goworkers_py.core.joining import JoinedBatch, joining
from goworkers_py.features.limits.limit import SlotClaim
from goworkers_py.links.atomic import holding
from goworkers_py.wire import payload
from goworkers_py.wire.batch import batch_field
from goworkers_py.wire.message import Timestamps, current_message, new_jid
from goworkers_py.wire.needs import BATCH


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
        self._advice = without_password(config.broker), settings_of_broker(config)  # for an error
        self.home = config.home
        self._clock = clock or Clock()
        self._workers = WorkerCheck(lambda: broker().recoverable.live_processes())
        self._publisher = Publisher(broker, on_later)
        self._writers = JobWriters(broker, self._workers)

    @property
    def broker(self) -> Broker:
        return self._broker()

    @property
    def milliseconds(self) -> bool:
        """Whether times are written as milliseconds."""
        return isinstance(self._timestamps.write(0.0), int)

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
        return self._pushed(self._form(queue, job_class, list(rows), options, needs, kwargs, self._joining(ties)))

    def checked_push(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Callable[[], str | None]:
        """Checks a push, and returns the function that makes it: for several pushes of which none may be made if one of
        them is wrong."""
        form = self._form(queue, job_class, [args], options, (), kwargs, self._joining(NO_TIES))
        self._check_workers([queue], form.writer.needs)
        return lambda: self._pushed(form)[0]

    def _pushed(self, form: PushForm) -> list[str | None]:
        if form.slots:
            self._broker().require(Capability.LIMITS)
        jids: list[str | None] = []
        firsts: dict[str, str] = {}
        duplicate: DuplicateJob | None = None  # raised when the other slices are pushed
        for start in range(0, len(form.rows), form.slice):
            jobs = self._jobs(form, start)
            pushes = [job.push(form.later, form.bid) for job in jobs if job is not None]
            try:
                answers = iter(self._push(pushes, form.writer.needs, bool(form.jid), firsts))
            except DuplicateJob as error:
                duplicate = duplicate or error
                jids += [None] * len(jobs)
            except BrokerError as error:
                error.pushed = of_rows(len(form.rows), jids, jobs, error.places)
                raise
            else:
                jids += [None if job is None else _jid(job, next(answers)) for job in jobs]
        if duplicate is not None:
            raise duplicate
        return jids

    def push_body(self, queue: str, body: bytes) -> None:
        """Pushes a bare body, which has no jid, to the level of a queue that is a list of other programs."""
        self._push([Push(queue, body)], frozenset(), False, {})

    def draft(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        needs: Collection[str] = (),
        kwargs: Mapping[str, Any] | None = None,
        ties: Ties = NO_TIES,
    ) -> tuple[str, Push] | None:
        """The jid and the push of one job, for a caller that publishes it; None when a client link stopped the push."""
        form = self._form(queue, job_class, [args], options, needs, kwargs, ties)
        [job] = self._jobs(form, 0)
        return None if job is None else (job.jid, job.push(form.later))

    def written(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        needs: Collection[str] = (),
        kwargs: Mapping[str, Any] | None = None,
        ties: Ties = NO_TIES,
    ) -> WrittenJob:
        """The payload of a job that something else pushes later. It joins no batch and takes no lock."""
        require("at" not in options.said, f"{job_class}: a link of a chain or a callback of a batch takes no `at`")
        require(
            not options.said.get("group"),
            f"{job_class}: a link of a chain or a callback of a batch is in no group: write "
            f"{job_class}.set(group=None).s(...)",
        )
        require(
            not options.said.get("unique_for"),
            f"{job_class} is unique, but a link of a chain or a callback of a batch takes no lock: write "
            f"{job_class}.set(unique_for=False).s(...)",
        )
        expires = ties.is_later and options.said.get("expires_in") is not None
        require(
            not expires, f"{job_class} is pushed later, and expires_in would count from now: take it out of the job"
        )
        form = self._form(queue, job_class, [args], options, needs, kwargs, ties)
        if form.writer.needs and Capability.LEASES in self._broker().capabilities:
            self._workers.check(queue, form.writer.needs)
        job = self._jobs(form, 0)[0]
        if job is None:
            raise ArgumentError(f"a client link stopped the push of {job_class}")
        return job._replace(payload=payload.splice(job.payload, {}, drop=("enqueued_at",)))

    def _form(
        self,
        queue: str,
        job_class: str,
        rows: Sequence[Sequence[Any]],
        options: EnqueueOptions,
        needs: Collection[str],
        kwargs: Mapping[str, Any] | None,
        ties: Ties,
    ) -> PushForm:
        """All rows are checked."""
        one_jid = options.said.get("jid")
        require(one_jid is None or len(rows) == 1, "one jid cannot name several jobs")
        for number, args in enumerate(rows):
            check_args(args, "args" if len(rows) == 1 else f"rows[{number}]")
        if kwargs:
            check_kwargs(kwargs)
        now = self._clock.wall()
        later = _later(options, now)
        pushed_at = now if later is None else later
        writer = self._writers.writer_of(queue, job_class, options, needs, kwargs, ties, pushed_at)
        locks = ties.locks
        if writer.unique is not None and not locks:
            locks = [writer.unique.name(args, kwargs or {}) for args in rows]
        return PushForm(writer, rows, self._times(now, later), later, one_jid, locks, ties.batch, ties.slots)

    @property
    def joins(self) -> JoinedBatch | None:
        """The batch that a push joins now."""
        return joining(self.home, current_message)

    def _joining(self, ties: Ties) -> Ties:
        joined = self.joins
        if joined is None:
            return ties
        self._broker().require(Capability.BATCHES)
        if not joined.own and current_message() is not None and holding(self.home) is not None:
            raise ArgumentError(
                "a push inside of atomic happens at the end of the job, when the block of its batch has ended: push "
                "outside of atomic. The batch of the running job takes it: `with workers.current_message().batch:`"
            )
        members = {**ties.members, **batch_field(joined.member)}
        return ties._replace(members=members, needs={*ties.needs, BATCH}, batch=joined.member.bid)

    def _push(
        self, pushes: Sequence[Push], needs: frozenset[str], named: bool, firsts: dict[str, str]
    ) -> Sequence[Answer]:
        """`named`: the caller has given the jid. `firsts`: see `Publisher.push`."""
        try:
            self._check_workers(dict.fromkeys(push.queue for push in pushes), needs)
            if (held := holding(self.home)) is not None:
                held.add(self, [self._publisher.free(push) for push in pushes] if named else pushes)
            elif pushes:
                return self._publisher.push(pushes, firsts)
        except BrokerUnreachable as error:
            raise error.with_advice(*self._advice) from error
        return [True] * len(pushes)

    def _check_workers(self, queues: Iterable[str], needs: frozenset[str]) -> None:
        """Only leases say which features workers know."""
        if needs and Capability.LEASES in self._broker().capabilities:
            for queue in queues:
                self._workers.check(queue, needs)

    def publish_held(self, pushes: Sequence[Push]) -> None:
        """Publishes pushes that `atomic` has held back, when its block or its job has ended well."""
        self._publisher.publish_held(pushes)

    def _times(self, now: float, later: float | None) -> dict[str, Any]:
        written = self._timestamps.write(now)
        return {"created_at": written, "enqueued_at": written} if later is None else {"created_at": written}

    def _jobs(self, form: PushForm, start: int) -> list[WrittenJob | None]:
        """Those of one slice."""
        writer, end = form.writer, start + form.slice
        rows, slots = form.rows[start:end], form.slots[start:end]
        jids = [form.jid or new_jid() for _ in rows]
        locks = (form.locks or [])[start:end]
        if not self._links:
            texts = writer.as_texts(rows, jids, form.times, locks, slots)
            claims = writer.claims(rows, jids, locks) if locks else repeat(None, len(rows))
            places = (
                [SlotClaim(slot, jid) for (slot, _), jid in zip(slots, jids, strict=True)] if slots else repeat(None)
            )
            gathering = writer.joining()
            return [
                WrittenJob(jid, writer.queue, text, writer.track(jid), claim, place, gathering)
                for jid, text, claim, place in zip(jids, texts, claims, places, strict=False)
            ]
        # A link may change the job in place: a deep copy keeps the caller's objects and the other jobs unchanged.
        jobs = writer.as_dicts(rows, jids, form.times, locks, slots)
        changed = (through_links(self._links, copy.deepcopy(job)) for job in jobs)
        return [None if job is None else writer.written(job) for job in changed]


def _later(options: EnqueueOptions, now: float) -> float | None:
    """When the jobs are due, if that is not now."""
    at = options.said.get("at")
    at = None if at is None else moment(at)
    return at if at is not None and at > now else None


def _jid(job: WrittenJob, answer: Answer) -> str | None:
    return job.jid if answer is True else answer or None
