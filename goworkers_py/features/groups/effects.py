"""The effects of the end of a job that aggregates the members of a set, see `core.effect`."""

from __future__ import annotations

from typing import ClassVar

from goworkers_py.core.effect import WEIGHT, Effect, EnclosingEffect
from goworkers_py.core.values import dataclass
from goworkers_py.features.groups.group import Group


@dataclass(frozen=True, slots=True)
class EndSet(EnclosingEffect):
    """Deletes the members of a set of a group, and does `effects` with it: the push of the job that runs in their
    place, and the ends of the members. With `into`, the members are not deleted: they are that set from then on, and
    end in later steps. Where the set is gone already, because another job has aggregated it, nothing happens."""

    jid: str  # of the job that aggregates the set
    group: Group
    effects: tuple[Effect, ...] = ()
    into: Group | None = None
    repeatable: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        return f"set {self.group.set}"

    @property
    def size(self) -> int:
        return sum(effect.size for effect in self.effects)


@dataclass(frozen=True, slots=True)
class EndMember(EnclosingEffect):
    """Deletes a member of a set, and does `effects`, those of its end. Nothing happens where the member is not there.
    So this effect may happen again, as may its own effects."""

    jid: str  # of the job that aggregates the set
    group: Group
    member: bytes
    effects: tuple[Effect, ...] = ()
    kind: ClassVar[str] = "member"
    repeatable: ClassVar[bool] = True

    @property
    def size(self) -> int:
        return WEIGHT + len(self.member) + sum(effect.size for effect in self.effects)
