"""An entry of the audit list: a change that people have made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from goworkers_py.core.values import dataclass


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who has done what to what. `inspector.actions()` returns the newest ones."""

    position: str  # in the list: `before` for the next page
    at: float  # by the broker's clock, epoch seconds
    who: str
    action: str  # a word, such as `retry`
    what: str  # a short text, such as `jobs of dead, class Mail`
    count: int | None = None  # how many were changed, if that can be counted
    source: str = ""  # the address from which it came
    change: str = ""  # the same in all entries of one change that was made in many steps
    more: Mapping[str, Any] = field(default_factory=dict)  # fields that a newer release has written

    def as_dict(self) -> dict[str, Any]:
        own = {"position": self.position, "at": self.at, "who": self.who, "action": self.action, "what": self.what,
               "count": self.count, "source": self.source, "change": self.change}  # fmt: skip
        return {**self.more, **own}
