"""The `with` blocks of a program that have a say in the pushes inside of them. Of each feature the innermost one holds.

Each push asks for them, so this is one read where there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from goworkers_py.core.effect import Push
    from goworkers_py.core.home import Destination, Home


class HoldsPushes(Protocol):
    def add(self, destination: Destination, pushes: Sequence[Push]) -> None: ...

    def take_back(self, destination: Destination, count: int) -> None:
        """So many of the pushes that were added last."""


class PushBlock:
    """One block. The base class has no say. An exception that is thrown into a thread may keep a block from its end, so
    each knows for itself for which code it is."""

    def holding(self, to: Home | None) -> HoldsPushes | None:
        """Holds back the pushes to this broker of the code that runs now; None: they happen at once. Without `to`: the
        pushes to any broker."""
        return None

    def ties(self, to: Home, run: object) -> bool:
        """Whether pushes to this broker have ties of the feature now: then its part for pushes is asked for them, see
        `api.push_part`. `run`: the message of the job that runs now; None outside of a job."""
        return False


_blocks: ContextVar[Mapping[str, PushBlock] | None] = ContextVar("goworkers_py_push_blocks", default=None)
blocks_now = _blocks.get  # by feature; None: there is no block, as for nearly every push


def put_block(feature: str, block: PushBlock | None) -> PushBlock | None:
    """Puts a block of a feature in the place of its outer one. Returns that one, which is to be put back at the end."""
    now = _blocks.get() or {}
    others = {name: other for name, other in now.items() if name != feature}
    _blocks.set((others if block is None else {**others, feature: block}) or None)
    return now.get(feature)


def holding(to: Home | None = None) -> HoldsPushes | None:
    """See `PushBlock.holding`."""
    for block in (_blocks.get() or {}).values():
        if (holds := block.holding(to)) is not None:
            return holds
    return None
