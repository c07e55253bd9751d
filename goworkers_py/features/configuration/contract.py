"""Central configurations: texts by name, each with its last versions. A version is a number that only grows, and never
returns, also after a delete. Where a server has lost its last writes, a number comes again with another text.

Every verb raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no, or when
a later release has written what is there. A `push` that is called again after that may store a second version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from goworkers_py.features.configuration.stored_config import StoredConfig


class Configurations(Protocol):
    """Threads share it."""

    def push(self, name: str, text: str, by: str, of: int = 0) -> int:
        """Stores a text as the newest version and returns its number, in one step. Keeps the last 50 versions."""

    def newest(self) -> Mapping[str, int]:
        """Returns the number of the newest version of each configuration."""

    def read(self, name: str, version: int = 0) -> StoredConfig | None:
        """Returns this version, or the newest one for 0; None if there is none. Raises BrokerRefused for one that is
        larger than any that a program of the fleet stores."""

    def versions(self, name: str) -> Sequence[StoredConfig]:
        """Returns all versions that are kept and can be read, the oldest first."""

    def delete(self, name: str) -> bool:
        """Deletes all versions. False if there is no such configuration."""

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Calls `changed` soon after this call, and soon after each push. It is called in another thread, and must not
        block. Returns the function that ends it. A message may get lost."""
