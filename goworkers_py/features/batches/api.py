"""Batches in the program that opens them: `with workers.batch("import", on_success=report): ...`."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from goworkers_py.api.job import Job, Signature
from goworkers_py.config.option_values import is_life, whole_seconds
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError, BatchEnded, BrokerError, BrokerUnavailable
from goworkers_py.core.push_blocks import holding
from goworkers_py.features.batches.batch import MOST_LEVELS, BatchStatus, Callback, Event, Membership, NewBatch, new_bid
from goworkers_py.features.batches.batch_list import BatchList
from goworkers_py.features.batches.joining import Join, JoinedBatch, joining
from goworkers_py.wire import payload
from goworkers_py.wire.message import current_message

if TYPE_CHECKING:
    from goworkers_py.api.client import Client

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_ITS_ID = object()  # stands for the id of the batch
OnEvent = Job[..., Any] | Signature | None


class Batch:
    """A batch that this program holds open: inside of its `with` block, pushes join it."""

    def __init__(self, client: Client, batches: BatchList, bid: str = "") -> None:
        self.bid = bid
        self._client = client
        self._batches = batches
        self._hold = ""  # of one block: a hold that has ended does not begin again
        self._copies = False  # another copy of the step that began the block may still arrive
        self._join: Join | None = None  # set inside of the block

    def status(self) -> BatchStatus | None:
        """How far the batch has got, as `workers.batches.status(batch.bid)`."""
        return self._batches.status(self.bid)

    def cancel(self) -> bool:
        """As `workers.batches.cancel(batch.bid)`."""
        return self._batches.cancel(self.bid)

    def __repr__(self) -> str:
        return f"<Batch {self.bid or '(not opened yet)'}>"

    def _opening(self) -> tuple[Membership, Callable[[], None]]:
        """The batch that pushes join, and the step that holds it. Nothing has changed before that step."""
        status = self.status()
        if status is None:
            raise BatchEnded(self.bid)
        return Membership(self.bid, tuple(status.to)), self._begin

    def _begin(self) -> None:
        if not self._repeated(lambda: self._batches.hold(self.bid, self._hold)):
            raise BatchEnded(self.bid)

    def __enter__(self) -> Batch:  # noqa: PYI034  # Self is of Python 3.11
        if self._join is not None:
            raise ArgumentError("a batch is for one `with` block at a time: reopen it with `workers.batches.open(bid)`")
        if holding() is not None:
            raise ArgumentError(
                "no batch is opened inside of atomic, whose pushes happen later than its end: open it outside. The "
                "batch of the running job takes pushes of atomic: `with workers.current_message().batch:`"
            )
        self._hold, self._copies = machine.token_hex(6), False
        member, begin = self._opening()
        self.bid = member.bid
        join = Join(JoinedBatch(member, self._client.home, current_message()))
        try:
            begin()
            join.__enter__()
            self._join = join
        except BatchEnded:
            raise
        except BaseException:
            # The reply may be lost, or an exception may strike, after the step was done. Python calls no `__exit__`.
            self._copies = True
            with suppress(BrokerError):  # it is logged
                self._end(self._give_up, member)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        join, self._join = self._join, None
        if join is None:
            return
        end = self._let_go if kind is None else self._give_up
        try:
            join.__exit__(kind, error, traceback)
            self._end(end, join.member)
        except BrokerError:
            if kind is None:  # else the block's own exception is raised
                raise
        except BaseException:  # one that strikes here: nobody else ends the hold
            with suppress(BrokerError):
                self._end(end, join.member)
            raise

    def _end(self, end: Callable[[Membership], None], member: Membership) -> None:
        try:
            self._repeated(lambda: end(member))
        except BrokerError as failed:
            log.error("batch %s could not be ended: %s: run `pyworkers batches close` or `cancel`", self.bid, failed)
            raise

    def _repeated(self, step: Callable[[], _T]) -> _T:
        """Once more after an outage: the reply may be lost, and a batch that nobody knows to be held would never
        end."""
        try:
            return step()
        except BrokerUnavailable:
            self._copies = True
            return step()

    def _let_go(self, member: Membership) -> None:
        self._batches.let_go(self.bid, self._hold, member.to, self._copies)

    def _give_up(self, member: Membership) -> None:
        """The block has raised. The jobs of others in a batch that was opened again go on."""
        self._let_go(member)


class NewBatchBlock(Batch):
    """A batch that is made when its block begins. Inside of the block of another batch, it is a part of that one."""

    def __init__(self, client: Client, batches: BatchList, name: str, callbacks: Mapping[Event, OnEvent], retain: int):
        super().__init__(client, batches)
        self._name = name
        self._retain_s = retain
        self._callbacks = {event: _signature(event, job) for event, job in callbacks.items() if job is not None}

    def _opening(self) -> tuple[Membership, Callable[[], None]]:
        outer = joining(self._client.home, current_message())
        parent = Membership("") if outer is None else outer.member
        if parent.bid.count(".") + 2 > MOST_LEVELS:
            raise ArgumentError(f"a batch is in at most {MOST_LEVELS - 1} other ones")
        bid = new_bid(parent.bid)
        for signature in self._callbacks.values():
            signature.job.check_home(self._client.home, "a batch")
        callbacks = {event: _callback(signature, bid) for event, signature in self._callbacks.items()}
        to = dict.fromkeys([*(callback.queue for callback in callbacks.values()), *parent.to])
        member = Membership(bid, tuple(to))
        new = NewBatch(member, self._name, self._hold, callbacks, self._retain_s, self._client.milliseconds)

        def begin() -> None:
            if not self._repeated(lambda: self._batches.begin(new)):
                raise BatchEnded(parent.bid)

        return member, begin

    def _give_up(self, member: Membership) -> None:
        self._batches.cancel(self.bid)


def _callback(signature: Signature, bid: str) -> Callback:
    args = [bid if arg is _ITS_ID else arg for arg in signature.args]
    written = signature.job.write(args, signature.kwargs, is_later=True)
    return Callback(written.queue, written.payload)


def _signature(event: Event, job: Job[..., Any] | Signature) -> Signature:
    if isinstance(job, Signature):
        return job
    if not isinstance(job, Job):
        raise ArgumentError(f"on_{event}: {job!r} is no job: give a job, or `job.s(...)` with its arguments")
    return Signature(job, (_ITS_ID,), {})


class OpenBatches(BatchList):
    """`workers.batches` shows batches, changes them, and opens them again."""

    def __init__(self, client: Callable[[], Client]) -> None:
        super().__init__(lambda: client().broker)
        self._client = client

    def open(self, bid: str) -> Batch:
        """`with workers.batches.open(bid): job.enqueue(1)` adds jobs to a batch that has not ended. BatchEnded is
        raised if it has."""
        return Batch(self._client(), self, bid)


def new_batch(
    client: Client,
    batches: BatchList,
    name: str,
    callbacks: Mapping[Event, OnEvent],
    retain: float | datetime.timedelta,
) -> Batch:
    """See `Producer.batch`."""
    payload.check_plain(name, "the name of a batch")
    if not is_life(retain):
        raise ArgumentError(f"batch: retain is {retain!r}, not a time of at least a second")
    return NewBatchBlock(client, batches, name, callbacks, whole_seconds(retain))
