"""A version of a central configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from goworkers_py.core.values import dataclass

LONGEST = 256_000  # characters of a text


@dataclass(frozen=True, slots=True)
class StoredConfig:
    name: str
    version: int
    text: str
    by: str  # who stored it
    at: float  # by the broker's clock, epoch seconds
    of: int = 0  # the version whose text came back; 0: this text was pushed

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"

    @property
    def digest(self) -> str:
        """Tells two texts of one number apart: after a failover that lost writes, a number comes again."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ConfigInForce:
    """The central configuration from which a process says that it has started."""

    name: str
    started: int  # the version with which it has started
    applied: int  # the version that it has taken since, but for what waits; 0: none, as the newest cannot be used
    # Sections that came or went, which wait for its next start. A process of early builds of 0.4.0 names options too.
    waiting: Sequence[str] = ()
    digest: str = ""  # of the text of `applied`; empty: a process of 0.4.0 does not tell it

    def has(self, stored: StoredConfig) -> bool:
        return self.applied == stored.version and self.digest in ("", stored.digest)
