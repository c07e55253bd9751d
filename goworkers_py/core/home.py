"""The broker from which a job comes, the brokers to which it pushes, and the pushes that it holds back until it has
ended well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.core.effect import Push
    from goworkers_py.core.outcome import Done


class Home(NamedTuple):
    """A broker and namespace, as a name."""

    name: str
    shared: bool = True  # other processes can reach it


class Destination(Protocol):
    """A client that pushes to one broker."""

    home: Home

    def publish_held(self, pushes: Sequence[Push]) -> object:
        """Publishes pushes that were held back."""


# The brokers to which jobs of this process have held back pushes, by name: the relay publishes to them.
DESTINATIONS: dict[str, Destination] = {}


class RunHome(NamedTuple):
    """Of a job that runs and has held back nothing."""

    home: Home  # the daemon's broker
    now: Callable[[], float]  # the time, as payloads have it


class HeldByRun(Protocol):
    """The pushes that a job has held back while it runs."""

    home: Home | None  # the daemon's broker

    @property
    def empty(self) -> bool: ...

    def done(self, run_id: str) -> Done:
        """The outcome when the code of the job has returned. `run_id` is in the ids of its effects."""
