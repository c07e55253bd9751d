"""The elections in the state of a memory broker, and the state behind the fence of a term."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from types import TracebackType
from typing import Any

from goworkers_py.brokers.contracts.transport import PublishResult
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import Fenced
from goworkers_py.core.values import dataclass
from goworkers_py.features.standby.election import Fence, News


@dataclass(slots=True)
class Election:
    """Used under the lock of the state."""

    epoch: int = 0
    last: str = ""  # the identity that won it, unless it has resigned
    token: str = ""
    prefers: bool = False
    since: float = 0.0
    until: float = 0.0
    asked: str = ""
    heard: list[Callable[[News], None]] = field(default_factory=list)


def election_of(state: State, name: str) -> Election:
    """Under the lock."""
    found = state.elections.setdefault(name, Election())
    assert isinstance(found, Election)
    return found


class FencedState(State):
    """The state of another broker, for one term of a leader: who takes its lock when the term is over gets Fenced."""

    def __init__(self, state: State, fence: Fence) -> None:
        self.__dict__ = state.__dict__
        self._fenced = _FencedLock(state, fence)

    def publish(self, pushes: Sequence[Push]) -> list[PublishResult]:
        with self.lock:  # not only to sort in: the append must pass the fence
            return self.publish_within(pushes)

    __slots__ = ("_fenced",)

    @property
    def lock(self) -> Any:
        return self._fenced

    @lock.setter
    def lock(self, lock: Any) -> None:
        raise AttributeError("the lock of a state stays")


class _FencedLock:
    def __init__(self, state: State, fence: Fence) -> None:
        self._state = state
        self._fence = fence

    def __enter__(self) -> None:
        self._fence.check()
        self._state.lock.acquire()
        election = election_of(self._state, self._fence.election)
        if election.token != self._fence.token or election.until <= self._state.clock():
            self._state.lock.release()
            why = "another process leads by now, or the lease of this leader has ended"
            self._fence.fall(why)
            raise Fenced(why)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.lock.release()
