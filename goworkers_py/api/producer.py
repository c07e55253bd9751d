"""The methods that the App and each of its partitions have: they push jobs to one broker, and show what became of
them."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from goworkers_py.api.job_writer import check_options
from goworkers_py.api.request import PushRequest
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.moments import Delay, Moment, after
from goworkers_py.features.batches.batch import RETAIN_S

if TYPE_CHECKING:
    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.admin.job_status import JobStatus
    from goworkers_py.api.client import Client
    from goworkers_py.api.job import Signature
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.core.clock import Clock
    from goworkers_py.features.batches.api import Batch, OnEvent, OpenBatches
    from goworkers_py.features.batches.batch import Event
    from goworkers_py.features.cancelling.admin import CancelAnswer
    from goworkers_py.features.chains.api import Chain, Parallel
    from goworkers_py.features.chains.chain_list import ChainList
    from goworkers_py.policy.registry import Registry
    from goworkers_py.wire.message import Timestamps


class Producer(ABC):
    """Pushes to one broker and shows its jobs: the base of `App` and `Partition`. A part that a push does not need is
    imported and made when it is first used."""

    def __init__(self, clock: Clock, registry: Registry) -> None:
        self.clock = clock
        self.registry = registry
        # Two threads at once may each make one of these: both work, one stays.
        self._inspector: Inspector | None = None
        self._batches: OpenBatches | None = None
        self._chains: ChainList | None = None

    @property
    @abstractmethod
    def broker(self) -> Broker: ...

    @property
    @abstractmethod
    def client(self) -> Client: ...

    @property
    @abstractmethod
    def timestamps(self) -> Timestamps: ...

    # --- pushing

    def enqueue(self, queue: str, job_class: str, args: Sequence[Any]) -> str | None:
        """`workers.enqueue("mail", "Send", ["ada", 1])` returns the jid, or None if a client link stopped the push."""
        return self.client.push(queue, job_class, args)

    def enqueue_in(self, queue: str, job_class: str, delay: Delay, args: Sequence[Any]) -> str | None:
        """Seconds or a timedelta from now: `workers.enqueue_in("mail", "Send", 60, ["ada"])`."""
        return self.enqueue_at(queue, job_class, after(delay, self.clock.at_latest()), args)

    def enqueue_at(self, queue: str, job_class: str, at: Moment, args: Sequence[Any]) -> str | None:
        """At epoch seconds or a datetime: `workers.enqueue_at("mail", "Send", 4102444800, ["ada"])`. A datetime without
        a time zone is in the local time of this machine."""
        return self.client.push(queue, job_class, args, EnqueueOptions(at=at))

    def enqueue_with_options(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str | None:
        """`workers.enqueue_with_options("mail", "Send", ["ada"], workers.EnqueueOptions(retry=3), {"urgent": True})`:
        the last one holds keyword arguments."""
        check_options(options.said, options.said, job_class)
        return self.client.push(queue, job_class, args, options, kwargs)

    def checked_push(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Callable[[], str | None]:
        """Checks a push as `enqueue_with_options` does, and returns the function that makes it."""
        check_options(options.said, options.said, job_class)
        return self.client.checked_push(PushRequest(queue, job_class, [args], options, kwargs))

    def enqueue_bulk(
        self, queue: str, job_class: str, rows: Iterable[Sequence[Any]], options: EnqueueOptions = NO_OPTIONS
    ) -> list[str | None]:
        """One job for each row of arguments: `workers.enqueue_bulk("mail", "Send", [["ada"], ["grace"]])`."""
        check_options(options.said, options.said, job_class)
        return self.client.push_bulk(queue, job_class, rows, options)

    def atomic(self) -> AbstractContextManager[None]:
        """`with workers.atomic(): ...` in a job holds back the pushes inside the block until the job has ended well.

        They happen in the same step in which the job is acknowledged: a crash leaves either the job, which runs again,
        or its end with all these pushes. If the block raises, its pushes are dropped. `@workers.job(atomic=True)` does
        this for the whole job. Outside of a job, the pushes of the block are published together at its end.

        Pushes of a job to another broker wait in the outbox of the job's broker, from which a daemon relays them.
        """
        from goworkers_py.features.atomic.api import hold_back

        return hold_back()

    # --- batches and chains

    @property
    def batches(self) -> OpenBatches:
        if self._batches is None:
            from goworkers_py.features.batches.api import OpenBatches

            self._batches = OpenBatches(lambda: self.client)
        return self._batches

    def batch(
        self,
        name: str = "",
        *,
        on_success: OnEvent = None,
        on_complete: OnEvent = None,
        on_death: OnEvent = None,
        retain: float | datetime.timedelta = RETAIN_S,
    ) -> Batch:
        """`with workers.batch("import", on_success=report) as batch: ...` counts the jobs that the block pushes.

        `on_complete` is pushed when all of them have ended, `on_success` when all have succeeded, `on_death` when the
        first one has failed for good. Each gets the id of the batch as its argument, or its own arguments with
        `report.s(7)`. When the block raises, the batch is cancelled. `retain`: for how long its status is kept after
        its end. docs/batches.md tells more.
        """
        from goworkers_py.features.batches.api import new_batch

        callbacks: dict[Event, OnEvent] = {"success": on_success, "complete": on_complete, "death": on_death}
        return new_batch(self.client, self.batches, name, callbacks, retain)

    @property
    def chains(self) -> ChainList:
        if self._chains is None:
            from goworkers_py.features.chains.chain_list import ChainList

            self._chains = ChainList(lambda: self.broker)
        return self._chains

    def chain(self, *links: Signature | Parallel) -> Chain:
        """`workers.chain(fetch.s(url), parse.s(workers.PREVIOUS)).enqueue()`: each job is pushed in the step in which
        the one before ends well, and PREVIOUS in its arguments is the result of that one. docs/chains.md tells more."""
        from goworkers_py.features.chains.api import new_chain

        return new_chain(lambda: self.client, links)

    def parallel(self, *parts: Signature) -> Parallel:
        """`workers.chain(workers.parallel(a.s(1), b.s(2)), total.s(workers.PREVIOUS))`: the parts of this link run side
        by side, and the next link gets the list of their results, in the order of the parts."""
        from goworkers_py.features.chains.api import parallel

        return parallel(parts)

    # --- what became of a job

    @property
    def inspector(self) -> Inspector:
        if self._inspector is None:
            from goworkers_py.admin.inspector import Inspector

            self._inspector = Inspector(
                lambda: self.broker,
                lambda: self.timestamps,
                lambda: self.clock.wall(),
                self.registry,
            )
        return self._inspector

    def status(self, jid: str) -> JobStatus:
        """`workers.status(jid).state` is scheduled, waiting, running, retry, dead, completed, cancelled, expired or
        unknown. `verified` says whether the job was seen there, or this is only its last known state.

        For a job with `track` or `retain` this takes the same time however many jobs there are; any other job is
        searched for, among 10,000 jobs of each place at most."""
        return self.inspector.status(jid)

    def result(self, jid: str, timeout: float | None = None, *, same_pool: bool = False) -> Any:
        """`workers.result(jid, timeout=5)` waits until a job with `retain` has ended, and returns its result.

        Raises JobFailed when it failed for good, JobCancelled when it was cancelled, deleted or has expired, and
        TimeoutError after `timeout` seconds. Raises NoResult when its result was not kept, or the job is found
        nowhere. In a job, raises ArgumentError for a job of the same pool, which may need this very thread;
        `same_pool=True` waits all the same."""
        from goworkers_py.features.tracking.api import result

        return result(self.broker, self.client.home, jid, timeout, same_pool)

    async def aresult(self, jid: str, timeout: float | None = None, *, same_pool: bool = False) -> Any:
        """`await workers.aresult(jid, timeout=5)` is `workers.result` for a coroutine: it does not block the loop."""
        from goworkers_py.features.tracking.api import aresult

        return await aresult(self.broker, self.client.home, jid, timeout, same_pool)

    def cancel(self, jid: str, *, retry: bool = False, timeout: float = 2.0) -> CancelAnswer:
        """`workers.cancel(jid)` cancels a job wherever it is: one that waits never runs, in one that runs JobCancelled
        is raised. With `retry` a running job is interrupted only, and retried as after a failure.

        Returns "cancelled" when the job was removed, or has ended as cancelled: from then on it does not run. Returns
        "interrupted" when it goes on later, as with `retry`; "too late" when it has ended in another way; "not found"
        when it is nowhere; "not running" when it waits, and only a run was to be interrupted; "runs in Ruby" or "runs
        in Go" when its process does not obey a cancel. Else returns "requested", after `timeout` seconds: the job is
        cancelled when a process meets it."""
        return self.inspector.cancel(jid, retry=retry, timeout=timeout)
