"""The clue of one run alone, which proves a death in that run, see `contracts.death_clues`."""

from __future__ import annotations

from goworkers_py.brokers.contracts.death_clues import DeathClues
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.values import dataclass


@dataclass(slots=True)
class LoneClue:
    """Used by the threads that beat, one at a time."""

    clues: DeathClues
    name: str
    delivery: Delivery
    _may_stand: bool = False
    _stands: bool = False

    def leave(self) -> None:
        if not self._stands:
            self._may_stand = True  # first: the reply may be lost
            self.clues.leave_alone(self.name)
            self._stands = True

    def take_back(self) -> None:
        if self._may_stand:
            self.clues.take_back_alone(self.name)
            self._may_stand = self._stands = False

    @property
    def is_ours(self) -> bool:
        """From any thread: whether the delivery that runs is still that of this process."""
        return self.clues.is_ours(self.delivery)
