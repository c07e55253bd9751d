"""Which batch the pushes of the code that runs now join."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.push_blocks import PushBlock, blocks_now, holding, put_block
from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.core.home import Home
    from goworkers_py.features.batches.batch import Membership


class JoinedBatch(NamedTuple):
    member: Membership
    home: Home | None  # of the broker that holds the batch; None: of any
    # The message of the run that has entered the block; None outside of a job. An exception that is thrown into a
    # worker's thread may keep the block from its end. The pushes of later jobs of the thread must not join then.
    run: object
    own: bool = False  # it is the batch of the job itself, which is open while the job runs


NAME = "batches"


def joined_now() -> JoinedBatch | None:
    """That of the innermost block, whoever pushes."""
    block = (blocks_now() or {}).get(NAME)
    return block.joined if isinstance(block, Join) else None


def joining(to: Home, run: object) -> JoinedBatch | None:
    """The batch that the pushes to this broker join. `run`: the message of the job that runs now."""
    joined = joined_now()
    if joined is None or joined.run is not run or joined.home not in (to, None):
        return None
    return joined


class Join(PushBlock):
    """Inside of this block, pushes join a batch."""

    def __init__(self, joining: JoinedBatch) -> None:
        self.joined = joining
        self._outer: list[PushBlock | None] = []  # of one thread, or task

    def ties(self, to: Home, run: object) -> bool:
        if joining(to, run) is None:
            return False
        if not self.joined.own and run is not None and holding(to) is not None:
            raise ArgumentError(
                "a push inside of atomic happens at the end of the job, when the block of its batch has ended: push "
                "outside of atomic. The batch of the running job takes it: `with workers.current_message().batch:`"
            )
        return True

    @property
    def member(self) -> Membership:
        return self.joined.member

    @property
    def bid(self) -> str:
        """The name of the batch: `workers.batches.status(workers.current_message().batch.bid)`."""
        return self.member.bid

    def __repr__(self) -> str:
        return f"<Batch {self.bid}>"

    def __enter__(self) -> Join:  # noqa: PYI034  # Self is of Python 3.11
        self._outer.append(put_block(NAME, self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        put_block(NAME, self._outer.pop())
