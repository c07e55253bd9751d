"""Which batch the pushes of the code that runs now join."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.features.atomic.held_pushes import Home
    from goworkers_py.features.batches.batch import Membership


class JoinedBatch(NamedTuple):
    member: Membership
    home: Home | None  # of the broker that holds the batch; None: of any
    # The message of the run that has entered the block; None outside of a job. An exception that is thrown into a
    # worker's thread may keep the block from its end. The pushes of later jobs of the thread must not join then.
    run: object
    own: bool = False  # it is the batch of the job itself, which is open while the job runs


_joining: ContextVar[JoinedBatch | None] = ContextVar("goworkers_py_joining", default=None)
joined_now = _joining.get  # None: no push joins a batch


def joining(to: Home, run: Callable[[], object]) -> JoinedBatch | None:
    """The batch that the pushes to this broker join. `run` returns the message of the job that runs now."""
    joined = _joining.get()
    if joined is None or joined.run is not run() or joined.home not in (to, None):
        return None
    return joined


class Join:
    """Inside of this block, pushes join a batch."""

    def __init__(self, joining: JoinedBatch) -> None:
        self._joining = joining
        self._tokens: list[Token[JoinedBatch | None]] = []  # of one thread, or task

    @property
    def member(self) -> Membership:
        return self._joining.member

    @property
    def bid(self) -> str:
        """The name of the batch: `workers.batches.status(workers.current_message().batch.bid)`."""
        return self.member.bid

    def __repr__(self) -> str:
        return f"<Batch {self.bid}>"

    def __enter__(self) -> Join:  # noqa: PYI034  # Self is of Python 3.11
        self._tokens.append(_joining.set(self._joining))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _joining.reset(self._tokens.pop())
