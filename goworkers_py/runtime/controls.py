"""How people change a process while it works: its launcher, as features see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from goworkers_py.core.delivery import Delivery


class ControlledPool(Protocol):
    name: str
    queues: list[str]


class RunningHere(Protocol):
    @property
    def running(self) -> Mapping[str, Delivery]:
        """By thread."""


class Controls(Protocol):
    on_quiet_asked: Callable[[], None]

    @property
    def managers(self) -> Sequence[ControlledPool]: ...

    @property
    def health(self) -> RunningHere: ...

    def resume(self) -> bool: ...

    def resize(self, threads: int, pool: str = "") -> dict[str, list[int]]: ...

    def pause_queue(self, queue: str) -> bool: ...

    def resume_queue(self, queue: str) -> bool: ...
