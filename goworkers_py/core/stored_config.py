"""A version of a central configuration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
