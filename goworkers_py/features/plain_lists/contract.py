"""The verbs of a broker for the lists that the consumers of another program use for themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class PlainLists(Protocol):
    """Raises BrokerUnavailable and BrokerRefused. Each verb may be called again."""

    def leftovers(self, pattern: str) -> dict[str, int]:
        """The lists of the consumers of a plain list that hold bodies, by their keys, with their sizes, whether the
        consumers live or not. `pattern` has `{n}` where they have their number: `demo.doing{n}`."""

    def take_back(self, held: str, name: str) -> Iterator[int]:
        """Moves the bodies of one such list to the back of the list `name`.

        The work is done while the caller iterates: each step yields the number of bodies that it moved. Call it only
        for consumers that have ended: living ones would run the same bodies.
        """
