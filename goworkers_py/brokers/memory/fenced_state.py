"""The state behind a fence: it refuses every step when the term of the fence is over."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from goworkers_py.brokers.contracts.transport import PublishResult
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import Fenced
from goworkers_py.core.fence import Fence


class FencedState(State):
    """The state of another broker, for one term: who takes its lock when the term is over gets Fenced."""

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
        lease = self._state.fences.get(self._fence.name)
        if lease is None or lease.token != self._fence.token or lease.until <= self._state.clock():
            self._state.lock.release()
            why = "another process leads by now, or the lease of this leader has ended"
            self._fence.fall(why)
            raise Fenced(why)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.lock.release()
