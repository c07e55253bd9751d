"""The pushes that a job holds back until it has ended well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from goworkers_py.core import machine
from goworkers_py.core.errors import TooManyHeld
from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.core.effect import Push

# They are sent to the broker in one step, with the settlement of the job.
MOST_HELD = 10_000
MOST_HELD_BYTES = 10_000_000


class Home(NamedTuple):
    """A broker and namespace, as a name."""

    name: str
    shared: bool = True  # other processes can reach it


class Destination(Protocol):
    """A client that pushes to one broker."""

    home: Home

    def publish_held(self, pushes: Sequence[Push]) -> object:
        """Publishes pushes that were held back."""


class HeldPushes:
    """The pushes of one block of `atomic`, or of all blocks of a job. Used by one thread only."""

    def __init__(self, run: object, home: Home | None, outer: HeldPushes | None = None) -> None:
        self.run = run  # the message of the run; None outside of a job
        self.home = home  # of the daemon that runs it
        self.thread = machine.get_ident()
        self._outer = outer
        self.whole: HeldPushes = outer.whole if outer is not None else self  # its bounds are those of all blocks
        self._pushes: dict[Destination, list[Push]] = {}
        self._count = self._bytes = 0  # of all blocks

    @property
    def empty(self) -> bool:
        return self.whole._count == 0

    def add(self, destination: Destination, pushes: Sequence[Push]) -> None:
        whole, size = self.whole, _size(pushes)
        if whole._count + len(pushes) > MOST_HELD or whole._bytes + size > MOST_HELD_BYTES:
            raise TooManyHeld(
                f"atomic holds back at most {MOST_HELD:,} pushes of {MOST_HELD_BYTES // 1_000_000} MB together: "
                "push jobs that push the others, or push outside of atomic"
            )
        self._pushes.setdefault(destination, []).extend(pushes)
        whole._count += len(pushes)
        whole._bytes += size

    def drop(self) -> None:
        """The block has raised."""
        for pushes in self._pushes.values():
            self.whole._count -= len(pushes)
            self.whole._bytes -= _size(pushes)
        self._pushes.clear()

    def end(self) -> Mapping[Destination, Sequence[Push]]:
        """The block has ended well. Gives its pushes to the outer block, or returns them if there is none."""
        if self._outer is None:
            return self._pushes
        merged = {destination: [*pushes] for destination, pushes in self._outer._pushes.items()}
        for destination, pushes in self._pushes.items():
            merged.setdefault(destination, []).extend(pushes)
        self._outer._pushes = merged  # in one step: an exception may be thrown into this thread
        return {}


def _size(pushes: Sequence[Push]) -> int:
    return sum(len(push.payload) for push in pushes)
