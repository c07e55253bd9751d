"""Makes the writers of jobs: one for all pushes of a class with the same options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from goworkers_py.api.argument_checks import require
from goworkers_py.api.job_writer import JobWriter, Ties
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.levels import Priority, level_of
from goworkers_py.features.tracking.record import says_tracked
from goworkers_py.features.unique.uniqueness import uniqueness_of
from goworkers_py.policy.grouping import grouping_of
from goworkers_py.wire import payload
from goworkers_py.wire.needs import FIELD, KWARGS, field_of

if TYPE_CHECKING:
    from goworkers_py.api.worker_check import WorkerCheck
    from goworkers_py.config.enqueue_options import EnqueueOptions

# Options of a push that make it unlike others.
_OF_ONE_PUSH = frozenset({"at", "jid", "expires_in", "priority"})
# Of the same options. A program may push to ever new queues.
MOST_KEPT = 100
_Kept = dict[tuple[str, str, frozenset[str]], JobWriter]


class JobWriters:
    """Of one client, whose threads share them."""

    def __init__(self, broker: Callable[[], Broker], workers: WorkerCheck) -> None:
        self._broker = broker
        self._workers = workers
        # By options, then by queue, class and needs: for as long as a program keeps the options. Two threads may each
        # make the same one.
        self._kept: WeakKeyDictionary[EnqueueOptions, _Kept] = WeakKeyDictionary()

    def writer_of(
        self,
        queue: str,
        job_class: str,
        options: EnqueueOptions,
        needs: Collection[str],
        kwargs: Mapping[str, Any] | None,
        ties: Ties,
        pushed_at: float,
    ) -> JobWriter:
        """Most pushes are like an earlier one, and get its writer. `pushed_at`: when the jobs come into their queue."""
        needs = options.needs.union(needs, ties.needs)
        if kwargs or ties.members or not _OF_ONE_PUSH.isdisjoint(options.said):
            return self._made(queue, job_class, options, needs, kwargs, ties, pushed_at)
        kept = self._kept.get(options)
        if kept is None:
            kept = self._kept.setdefault(options, {})
        key = (queue, job_class, needs)
        writer = kept.get(key)
        if writer is None:
            writer = self._made(queue, job_class, options, needs, None, ties, pushed_at)
            if len(kept) >= MOST_KEPT:
                kept.clear()
            kept[key] = writer
        return writer

    def _made(
        self,
        queue: str,
        job_class: str,
        options: EnqueueOptions,
        needs: frozenset[str],
        kwargs: Mapping[str, Any] | None,
        ties: Ties,
        pushed_at: float,
    ) -> JobWriter:
        needs = needs | {KWARGS} if kwargs else needs
        if "priority" in options.said:
            queue = self._level(queue, options.said["priority"])
        fields = _fields(queue, job_class, options.fields_at(pushed_at), kwargs)
        if needs:
            fields[FIELD] = {**field_of(needs), **ties.members}
        grouping = grouping_of(options.said, kwargs or {})
        if grouping is not None:
            self._broker().require(Capability.GROUPS)
            require(not ties.batch, "a job of a group cannot be in a batch: push it outside of the batch")
            fields[FIELD] |= grouping.field()
        if says_tracked(fields):
            self._broker().require(Capability.RECORDS)
        unique = uniqueness_of(options.said, job_class)
        if unique is not None:
            self._broker().require(Capability.LOCKS)
        return JobWriter(fields, needs, unique, grouping)

    def _level(self, queue: str, priority: Priority) -> str:
        """The queue of jobs with this priority, which a live process must work."""
        level = level_of(queue, priority)
        if level != queue and Capability.LEASES in self._broker().capabilities:
            self._workers.check_level(queue, level)
        return level


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
