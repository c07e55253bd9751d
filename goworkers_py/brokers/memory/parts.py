"""The parts of a memory broker's state: of the engine, and of each feature. A push, a settlement and a move fold over
them, and know no kind of tie or effect.

A tie has two of its five steps here, `decide` and `take`. No write can be refused in memory, so nothing is checked
before, and nothing is undone. An exception may end a push between any two instructions, and the push is done again from
the start: so both answer and do the same for one push, which is known by its number, however often they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.brokers.contracts.transport import PublishResult
    from goworkers_py.brokers.memory.published_push import PublishedPush
    from goworkers_py.core.effect import Effect
    from goworkers_py.core.holder import Holder
    from goworkers_py.core.job_state import StateWord


ApplyEffects = Callable[[Iterable["Effect"]], None]


class Decision(NamedTuple):
    """A tie's, where the push does not simply go on."""

    result: PublishResult
    place: Callable[[], object] | None = None  # puts the job elsewhere than into its queue. None: nothing is pushed


class TieInMemory(NamedTuple):
    decide: Callable[[Any, PublishedPush], Decision | None]  # None: the push goes on
    take: Callable[[Any, PublishedPush], None]  # called when the push happens, unless `decide` has given it a place
    of_queue: bool = False  # it has no say in a push that goes elsewhere than into its queue
    # The job that keeps the push back: for who rather waits for its end.
    holder: Callable[[Any], Holder | None] = lambda tie: None


class MemoryMoved(NamedTuple):
    """A move of a job without a run, by the scheduler or by people."""

    payload: bytes
    state: StateWord
    reason: str
    queue: str = ""
    due: float | None = None
    life_s: int | None = None  # of what tells about the job from now on; None: as for any other move
    # A part that knows of the end of the job does nothing. True: but for a dead job. None: whatever it knows.
    may_be_dead: bool | None = None


class MemoryPart:
    """Used under the lock of the state."""

    ties: Mapping[type[Any], TieInMemory] = MappingProxyType({})
    effects: Mapping[type[Any], Callable[[Any], object]] = MappingProxyType({})
    # Those that enclose others get a function that does these.
    enclosing: Mapping[type[Any], Callable[[Any, ApplyEffects], object]] = MappingProxyType({})

    def moved(self, move: MemoryMoved) -> None:
        """Besides the effects of the ties of the job."""
