"""The neighbours (other programs of a Sidekiq fleet) of a broker that only pyworkers uses: there are none."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.brokers.contracts.fleet import Leftover
from goworkers_py.brokers.contracts.neighbours import Neighbours
from goworkers_py.core.errors import ConfigError


class NoNeighbours(Neighbours):
    def __init__(self, broker: str) -> None:
        self._broker = broker  # the broker's name, for the error message

    def leftovers(self) -> list[Leftover]:
        return []

    def take_over(self, process: str) -> Iterator[int]:
        return iter(())

    def lives(self, process: str) -> bool:
        return False

    def mark_deploy(self, label: str, at: float) -> str | None:
        raise ConfigError(f"broker: cannot mark a deploy: Sidekiq's Metrics page does not read {self._broker}")
