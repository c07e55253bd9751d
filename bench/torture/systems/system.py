"""The contract of an adapter: how a system is had, started and set up, and how long its own recovery takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple

APPS = Path(__file__).resolve().parents[1] / "apps"
THREADS = 5  # jobs at once in a worker
RETRY_S = 1  # after which a failed job is run again


class Place(NamedTuple):
    """Of one worker, or of the producer."""

    url: str  # of its proxy
    name: str  # w0, w1, producer: the same in each of its lives
    ledger: Path
    folder: Path  # of the run


class System(ABC):
    name: str
    language: str
    settings: str  # for the table: what is set beside the defaults
    notes: str  # for the page: why, and by which page of its documentation
    losses: str = ""  # for the page: how it comes to lose jobs, as found in its code and its logs
    settle_s: float  # after the last push: until everything that its recovery finds has been run again
    version: str = ""

    @abstractmethod
    def find(self) -> None:
        """Sets `version`, and installs nothing. Raises bench.environments.Unavailable if a program is missing."""

    def install(self) -> None:  # noqa: B027  # two of them are installed already
        """Called after `find`. Raises Unavailable too."""

    @abstractmethod
    def worker(self, place: Place) -> list[str]: ...

    @abstractmethod
    def client(self) -> list[str]:
        """A program that reads lines such as {"id": "job000001", "ms": 10, "failures": 0, "at": 0.0} and answers each:
        {"pushed": true}, or {"error": "..."}."""

    def environment(self, place: Place) -> dict[str, str]:
        return {
            "PYTHONPATH": str(APPS),
            "TORTURE_REDIS": place.url,
            "TORTURE_NAME": place.name,
            "TORTURE_LEDGER": str(place.ledger),
            "TORTURE_FAILED": str(place.folder / "failed"),
            "TORTURE_THREADS": str(THREADS),
            "TORTURE_RETRY_S": str(RETRY_S),
        }
