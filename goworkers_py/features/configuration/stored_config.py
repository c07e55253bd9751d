"""A version of a central configuration."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any

from goworkers_py.core.config_in_force import ConfigInForce
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


def has_taken(config: ConfigInForce, stored: StoredConfig) -> bool:
    return config.applied == stored.version and config.digest in ("", stored.digest)
