"""Which configuration in the broker a process has: what it tells the fleet."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.core.values import dataclass


@dataclass(frozen=True, slots=True)
class ConfigInForce:
    """The configuration in the broker from which a process says that it has started."""

    name: str
    started: int  # the version with which it has started
    applied: int  # the version that it has taken since, but for what waits; 0: none, as the newest cannot be used
    # Sections that came or went, which wait for its next start. A process of early builds of 0.4.0 names options too.
    waiting: Sequence[str] = ()
    digest: str = ""  # of the text of `applied`; empty: a process of 0.4.0 does not tell it
