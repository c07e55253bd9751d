"""Writes the payloads of jobs: one writer for all pushes of a class with the same options."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from goworkers_py.api.request import require
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core import machine
from goworkers_py.core.effect import Push, ties_of
from goworkers_py.core.levels import Priority, level_of
from goworkers_py.core.values import NamedTuple
from goworkers_py.features import FEATURES
from goworkers_py.wire import payload
from goworkers_py.wire.needs import FIELD, KWARGS, field_of

if TYPE_CHECKING:
    from goworkers_py.api.client_links import ClientLink
    from goworkers_py.api.push_part import JobTies, PushPart
    from goworkers_py.api.request import PushRequest
    from goworkers_py.api.worker_check import WorkerCheck
    from goworkers_py.config.enqueue_options import EnqueueOptions
    from goworkers_py.core.effect import Tie
    from goworkers_py.features.feature import Feature

Times = Mapping[str, float | int]
Owns = Sequence[Mapping[str, Any]]
# The jids of a slice of jobs, None for one that a client link has stopped, and the pushes of the others.
Written = tuple[list[str | None], list[Push]]

SLICE = 1_000
# Of the same options. A program may push to ever new queues.
MOST_KEPT = 100


class JobWriter:
    """The fields that all jobs of some pushes share. The jobs differ in their arguments, jids and times, and in what
    the features of their ties add. It does not change, so threads and pushes share it."""

    def __init__(
        self,
        fields: dict[str, Any],
        needs: frozenset[str],
        ties: Mapping[PushPart, JobTies],
        links: Sequence[ClientLink],
        parts_in: Callable[[Mapping[str, Any]], Sequence[PushPart]],
    ) -> None:
        """`needs` names the features that the worker must know. `parts_in` finds the parts of the features for which
        fields have a mark: a client link may have written them."""
        self._links, self._parts_in = links, parts_in
        self.needs = needs
        self.parts = [*ties]
        self.slice = min([SLICE, *(job_ties.slice for job_ties in ties.values() if job_ties.slice)])
        self._queue: str = fields["queue"]
        self._fields = fields
        self._ties = [job_ties for job_ties in ties.values() if job_ties.shared is None]
        self._goals = [job_ties for job_ties in self._ties if job_ties.has_goal]
        self._shared = ties_of(*[job_ties.shared for job_ties in ties.values()])
        # Made at their first use: not by `cached_property`, whose lock another thread may hold in the moment of a fork.
        self._heads = ["", ""]

    def own_members(self, asked: PushRequest) -> Owns | None:
        """The members that each job has of its own in the payload's field; None for jobs without such members."""
        found = [owns for ties in self._ties if (owns := ties.own_members(asked)) is not None]
        if not found:
            return None
        shared = self._fields.get(FIELD, {})
        return [dict(chain(shared.items(), *(own.items() for own in owns))) for owns in zip(*found, strict=True)]

    def write(
        self, rows: Sequence[Sequence[Any]], owns: Owns | None, times: Times, at: float | None, jid: str | None
    ) -> Written:
        """`jid`: given by the caller."""
        if self._links:
            return self._write_through(rows, owns, times, at, jid)
        head = self._head(of_owners=owns is not None)
        texts = payload.encode_each(rows) if len(rows) > 1 else [payload.encode(rows[0])]
        tail = "".join([f',"{name}":{time}' for name, time in times.items()])
        jids: list[str | None] = []
        pushes: list[Push] = []
        for place, args in enumerate(texts):
            chosen = jid or machine.token_hex(12)
            text = payload.encode(jid) if jid else f'"{chosen}"'
            own = None if owns is None else owns[place]
            if own is None:
                raw = f'{head},"args":{args},"jid":{text}{tail}}}'
            else:
                raw = f'{head},"args":{args},"jid":{text},"{FIELD}":{payload.encode(own)}{tail}}}'
            ties = self._ties_of(self._dict(rows[place], chosen, own), at) if self._ties else self._shared
            jids.append(chosen)
            pushes.append(Push(self._queue, raw.encode(), at, ties=ties))
        return jids, pushes

    def _write_through(
        self, rows: Sequence[Sequence[Any]], owns: Owns | None, times: Times, at: float | None, jid: str | None
    ) -> Written:
        """With client links, which may change each job."""
        from goworkers_py.api.client_links import through_links

        jids: list[str | None] = []
        pushes: list[Push] = []
        for place, args in enumerate(rows):
            own = None if owns is None else owns[place]
            fields = {**self._dict(args, jid or machine.token_hex(12), own), **times}
            # A link may change the job in place: a deep copy keeps the caller's objects and the other jobs unchanged.
            job = through_links(self._links, copy.deepcopy(fields))
            jids.append(None if job is None else job["jid"])
            if job is not None:
                others = [part.tie_in(job) for part in self._parts_in(job) if part not in self.parts]
                ties = (*(tie for tie in others if tie is not None), *self._ties_of(job, at))
                pushes.append(Push(job["queue"], payload.write(job), at, ties=ties))
        return jids, pushes

    def _head(self, of_owners: bool) -> str:
        """The JSON of what is the same in all jobs, without the last bracket; `of_owners`: and without the field of
        which a part is the job's own. It is made once: the encoder's preparation takes longer than a job's own
        fields."""
        if not self._heads[of_owners]:
            fields = {name: value for name, value in self._fields.items() if not of_owners or name != FIELD}
            self._heads[of_owners] = payload.encode(fields)[:-1]
        return self._heads[of_owners]

    def _dict(self, args: Sequence[Any], jid: str, own: Mapping[str, Any] | None) -> dict[str, Any]:
        fields = {**self._fields, "args": list(args), "jid": jid}
        if own is not None:
            fields[FIELD] = own
        return fields

    def _ties_of(self, job: Mapping[str, Any], at: float | None) -> tuple[Tie, ...]:
        goals = [] if at else [goal for of in self._goals if (goal := of.goal(job)) is not None]
        ties = [tie for of in self._ties if (tie := of.tie(job, bool(goals))) is not None]
        return (*ties, *self._shared, *goals)


class PreparedPush(NamedTuple):
    """A push whose rows and options are all right. Its jobs are written a slice at a time."""

    asked: PushRequest
    writer: JobWriter
    owns: Owns | None  # for each row the members that its job has of its own
    times: Times
    later: float | None  # when the jobs are due, if that is not now

    def slice(self, start: int) -> Written:
        asked, writer, owns, times, later = self
        rows = asked.rows
        if len(rows) > writer.slice:
            rows = rows[start : start + writer.slice]
            owns = owns and owns[start : start + writer.slice]
        return writer.write(rows, owns, times, later, asked.options.said.get("jid"))


class JobWriters:
    """Of one client, whose threads share them."""

    def __init__(self, broker: Callable[[], Broker], workers: WorkerCheck, links: Sequence[ClientLink]) -> None:
        self._broker = broker
        self._links = links
        self._workers = workers
        self._parts: dict[str, PushPart] = {}  # by the name of the feature; made when they are first needed
        # By options, then by the rest: for as long as a program keeps the options. Two threads may each make the same
        # one.
        self._kept: WeakKeyDictionary[EnqueueOptions, dict[object, JobWriter]] = WeakKeyDictionary()

    def writer_of(self, asked: PushRequest, pushed_at: float) -> JobWriter:
        """Most pushes are like an earlier one, and get its writer. `pushed_at`: when the jobs come into their queue."""
        options = asked.options
        if asked.kwargs or asked.members or asked.blocks or options.of_one_push:
            return self._made(asked, pushed_at)
        kept = self._kept.get(options)
        if kept is None:
            kept = self._kept.setdefault(options, {})
        key = (asked.queue, asked.job_class, asked.needs, asked.code is None, asked.by_others)
        writer = kept.get(key)
        if writer is None:
            writer = self._made(asked, pushed_at)
            if len(kept) >= MOST_KEPT:
                kept.clear()
            kept[key] = writer
        return writer

    def parts_beside(self, writer: JobWriter) -> Collection[PushPart]:
        """The parts of all features that fields can mark, and those of the writer."""
        return dict.fromkeys([*(self._part(feature) for feature in FEATURES if feature.push_marks), *writer.parts])

    def parts_in(self, fields: Mapping[str, Any], blocks: Collection[str] = ()) -> Sequence[PushPart]:
        """The parts of the features for which these fields or options have a mark, and of those of the blocks."""
        return [
            self._part(feature)
            for feature in FEATURES
            if feature.name in blocks or not feature.push_marks.isdisjoint(fields)
        ]

    def _part(self, feature: Feature) -> PushPart:
        part = self._parts.get(feature.name)
        if part is None:
            part = self._parts.setdefault(feature.name, feature.pushes().of_client(self._broker))
        return part

    def _made(self, asked: PushRequest, pushed_at: float) -> JobWriter:
        options, job_class, kwargs = asked.options, asked.job_class, asked.kwargs
        queue = asked.queue
        if "priority" in options.said:
            queue = self._level(queue, options.said["priority"])
        fields = _fields(queue, job_class, options.fields_at(pushed_at), kwargs)
        marks = options.said if asked.code is None else {**asked.code.options, **options.said}
        parts = self.parts_in(marks, asked.blocks)
        ties = {part: job_ties for part in parts if (job_ties := part.ties_of(asked)) is not None}
        needs = options.needs | asked.needs | ({KWARGS} if kwargs else set())
        needs = needs.union(*[job_ties.needs for job_ties in ties.values()])
        if needs:
            fields[FIELD] = {**field_of(needs), **asked.members}
        for job_ties in ties.values():
            if job_ties.members:
                fields[FIELD] |= job_ties.members
        return JobWriter(fields, needs, ties, self._links, self.parts_in)

    def _level(self, queue: str, priority: Priority) -> str:
        """The queue of jobs with this priority, which a live process must work."""
        level = level_of(queue, priority)
        if level != queue and Capability.LEASES in self._broker().capabilities:
            self._workers.check_level(queue, level)
        return level


def check_push(asked: PushRequest) -> None:
    """Raises ArgumentError for a push that the options of a feature do not go together with."""
    for feature in FEATURES:
        if not feature.push_marks.isdisjoint(asked.options.said):
            feature.pushes().check_push(asked)


def check_options(own: Mapping[str, Any], merged: Mapping[str, Any], job_class: str) -> None:
    """Raises ArgumentError for options of a feature that do not go together: `own` was given now, and `merged` has all
    options of the job."""
    for feature in FEATURES:
        if not feature.push_marks.isdisjoint(own) or not feature.push_marks.isdisjoint(merged):
            feature.pushes().check_options(own, merged, job_class)


def _fields(queue: str, job_class: str, options: dict[str, Any], kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields that all jobs of a push share."""
    for name, value in (("queue", queue), ("class", job_class)):
        require(bool(value) and type(value) is str, f"{name} must be a name, is {value!r}")
        payload.check_plain(value, name)
    # Sidekiq always writes `retry`: without it go-workers would not retry at all.
    fields = {"retry": True, "queue": queue, "class": job_class, **options}
    if kwargs:
        fields["kwargs"] = dict(kwargs)
    return fields
