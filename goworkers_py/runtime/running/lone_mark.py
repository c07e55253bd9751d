"""The mark of one run alone, which proves a death in that run, see `contracts.death_marks`."""

from __future__ import annotations

from goworkers_py.brokers.contracts.death_marks import DeathMarks
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.values import dataclass


@dataclass(slots=True)
class LoneMark:
    """Used by the threads that beat, one at a time."""

    marks: DeathMarks
    name: str
    delivery: Delivery
    _may_stand: bool = False
    _stands: bool = False

    def leave(self) -> None:
        if not self._stands:
            self._may_stand = True  # first: the reply may be lost
            self.marks.leave_alone(self.name)
            self._stands = True

    def take_back(self) -> None:
        if self._may_stand:
            self.marks.take_back_alone(self.name)
            self._may_stand = self._stands = False

    @property
    def is_ours(self) -> bool:
        """From any thread: whether the delivery that runs is still that of this process."""
        return self.marks.is_ours(self.delivery)
