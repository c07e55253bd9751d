"""A time wheel: which timers are due, decided without a clock and without input or output.

The wheel is a ring of slots, each for one tick of time. A timer that is due in tick N is in slot N % slots, with the
timers of later turns. A tick looks at the timers of one slot only, and takes those of its own turn. So `insert` and
`remove` take the same time for one timer and for a million. A timer is never due before its time, and at most one tick
after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Generic, TypeVar

from goworkers_py.core.errors import ArgumentError

# A timer is a plain tuple that begins with its id and with the time at which it is due. Python's garbage collector soon
# passes over plain tuples of texts and numbers. It would visit a million objects of any class again and again, and each
# of these visits would hold up a tick.
T = TypeVar("T", bound=tuple[Any, ...])
_DUE = itemgetter(1)

FEWEST_SLOTS = 2  # see `_taken`


class Wheel(Generic[T]):
    """Has no lock: its owner calls it from one thread at a time. `now` and `due` are seconds of the same clock."""

    def __init__(self, tick: float, slots: int, now: float) -> None:
        self._tick = tick
        self._at = int(now / tick)  # the last tick that was looked at
        self._size = slots
        self._timers: dict[str, T] = {}
        self._slots: list[dict[str, T]] = [{} for _ in range(slots)]

    def insert(self, timer: T) -> bool:
        """Replaces the timer of this id. False when the timer is due already: then it is not in the wheel."""
        key: str = timer[0]
        if key in self._timers:
            self.remove(key)
        tick = int(timer[1] / self._tick) + 1  # the first tick that begins after the timer is due
        if tick <= self._at:
            return False
        self._slots[tick % self._size][key] = self._timers[key] = timer
        return True

    def remove(self, key: str) -> T | None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            del self._slots[(int(timer[1] / self._tick) + 1) % self._size][key]
        return timer

    def get(self, key: str) -> T | None:
        return self._timers.get(key)

    def advance(self, now: float) -> list[T]:
        """Takes the timers that are due by now, those first that were due first. With a clock that was set back, the
        wheel goes back too: the timers that it has are all due later."""
        first, self._at = self._at + 1, int(now / self._tick)
        if self._at - first >= self._size:  # the process stood still for longer than a turn
            found = [timer for slot in self._slots for timer in self._taken(slot)]
        else:
            found = [
                timer for tick in range(first, self._at + 1) for timer in self._taken(self._slots[tick % self._size])
            ]
        found.sort(key=_DUE)
        return found

    def _taken(self, slot: dict[str, T]) -> list[T]:
        # A timer of a later turn is due a whole turn less one tick after the begin of this tick, and a wheel has at
        # least two slots. So half a tick is far from both, and no rounding keeps a timer for another turn.
        bound = (self._at + 0.5) * self._tick
        found = [timer for timer in slot.values() if timer[1] < bound]
        if len(found) == len(slot):
            slot.clear()
        else:
            for timer in found:
                del slot[timer[0]]
        for timer in found:
            del self._timers[timer[0]]
        return found

    def quantity(self, slot: int) -> int:
        """How many timers are in a slot, those of later turns included."""
        if not 0 <= slot < self._size:
            raise ArgumentError(f"the wheel has slots 0 to {self._size - 1}, and no slot {slot}")
        return len(self._slots[slot])

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[T]:
        return iter(self._timers.values())
