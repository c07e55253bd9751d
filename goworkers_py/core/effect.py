"""Effects: what else happens in the step in which a delivery is settled.

An outcome carries its effects. They happen only if the delivery was still in progress, and then all of them. Each has
an id, (jid, kind), which no other effect of the outcome has. Where the queues are on another server, an effect whose id
was applied within a day changes nothing, see `Store.apply`. So a job that is pushed again within a day under the same
jid, after it has ended well, has no effects there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Protocol, TypeVar

from goworkers_py.core.values import dataclass

# How long a broker knows the id of a push, and of an effect that was applied.
ID_LIFE_S = 86_400
# The records of jobs that go on, and of what they are bound to, live for so long at least.
KEPT_S = 90 * 86_400
# The sizes of effects bound a batch of settlements, see `runtime.settling.settlement`. A push with ties weighs as much
# as so many bytes: it is up to 60 words of the one command, of which Redis takes 1,048,576, and up to 0.1 ms of its
# time.
WEIGHT = 1_000


class Effect(Protocol):
    """Something else that happens in the step: the broker knows by the type of the value what to do."""

    @property
    def jid(self) -> str:
        """Of the job whose end or move has this effect."""

    @property
    def kind(self) -> str:
        """Of one jid and kind, an effect that is not repeatable happens once where the jobs are on another server."""

    @property
    def size(self) -> int:
        """About as many bytes as the effect adds to the settlement."""

    @property
    def repeatable(self) -> bool:
        """Twice is as good as once: on two servers it happens again where it is asked again."""


class EnclosingEffect:
    """The base of effects that do others in their own step, or nothing at all."""

    __slots__ = ()
    effects: tuple[Effect, ...]


class Tie(Protocol):
    """A thing outside of its queue that has a say in a push, in the step of the push: whether it happens, and where the
    job goes. The value says what is to be done, and the part of its feature for a broker does it."""

    @property
    def word(self) -> str:
        """Names the kind of tie."""


T = TypeVar("T")


def ties_of(*found: Tie | None) -> tuple[Tie, ...]:
    """The ties that there are."""
    return tuple([tie for tie in found if tie is not None])


@dataclass(frozen=True, slots=True)
class Push:
    """A payload for its queue. With `at` (epoch seconds) it waits among the scheduled jobs until then.

    With an `id`, a second push of the same id within a day is a duplicate and pushes nothing. There is at most one
    of each kind of `ties`; `features.TIES` has the order in which they are asked.
    """

    queue: str
    payload: bytes
    at: float | None = None
    id: str = ""
    ties: tuple[Tie, ...] = ()

    @property
    def tied(self) -> bool:
        """Whether something else decides whether the push happens, or where to."""
        return bool(self.id or self.ties)

    def tie(self, kind: type[T]) -> T | None:
        """Its tie of this kind."""
        for tie in self.ties:
            if type(tie) is kind:
                return tie
        return None

    def with_tie(self, new: Tie) -> Push:
        """The same push with this tie in place of that of its kind."""
        return replace(self, ties=tuple([new if type(tie) is type(new) else tie for tie in self.ties]))

    def without_tie(self, kind: type[object]) -> Push:
        return replace(self, ties=tuple([tie for tie in self.ties if type(tie) is not kind]))


def by_place(pushes: Iterable[Push]) -> tuple[dict[str, list[bytes]], list[float | bytes]]:
    """The payloads for each queue, and the times and payloads for the schedule."""
    now: dict[str, list[bytes]] = {}
    later: list[float | bytes] = []
    for push in pushes:
        if push.at is None:
            now.setdefault(push.queue, []).append(push.payload)
        else:
            later += (push.at, push.payload)
    return now, later


@dataclass(frozen=True, slots=True)
class PushJobs:
    """Pushes other jobs, as `Transport.publish` does."""

    jid: str
    pushes: tuple[Push, ...]
    kind: str = "push"
    repeatable: ClassVar[bool] = False

    @property
    def size(self) -> int:
        return sum(len(push.payload) + (WEIGHT if push.tied else 0) for push in self.pushes)


@dataclass(frozen=True, slots=True)
class PostJobs:
    """Puts pushes into the outbox for another broker, where they wait until a process relays them. Each has an id: it
    may be relayed more than once."""

    jid: str
    to: str  # the name of the other broker
    pushes: tuple[Push, ...]
    repeatable: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        return f"post:{self.to}"

    @property
    def size(self) -> int:
        return sum(len(push.payload) for push in self.pushes)


@dataclass(frozen=True, slots=True)
class StoreValue:
    """Stores a value under the id of the effect, for `life_s` seconds. It replaces the value that is there."""

    jid: str
    kind: str
    value: bytes
    life_s: int  # at least 1
    repeatable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.life_s < 1:
            raise ValueError(f"a value lives for at least one second, not {self.life_s}")

    @property
    def size(self) -> int:
        return len(self.value)
