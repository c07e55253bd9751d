"""Who leads: the words of an election.

Of the processes of an election one leads at a time. Each win begins a term, which has an epoch (a number that only
grows) and a token (a random word that no other term has).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.policy.registry import Registry


class Leader(NamedTuple):
    """The leader of an election, as its lease tells."""

    identity: str
    epoch: int
    prefers: bool  # it has `prefer_leader`
    since: float  # epoch seconds, by the broker's clock
    left_s: float  # until its lease ends, unless it is renewed
    asked: str = ""  # who has asked it to step down
    life_s: float = math.inf  # of its lease, from each renewal on


class Standing(NamedTuple):
    """How an election stands."""

    leader: Leader | None  # None: no lease is there, and anybody may win
    epoch: int  # the highest one that was ever won; 0: none
    last: str  # the identity that won it, unless it has resigned


class Bid(NamedTuple):
    """A process bids with it to lead."""

    identity: str  # of the process in the term that it may win
    token: str
    prefers: bool
    seen: Standing  # the last look of the bidder
    epoch: int = 0  # the highest one that the bidder has ever seen: a win gets a higher one


class News(NamedTuple):
    """A message on the channel of an election. An empty one says that some may have been missed."""

    what: str = ""  # beat, farewell, step-down
    epoch: int = 0
    identity: str = ""  # of the leader
    successor: str = ""  # of a farewell: who wins next, if it still lives


class LeaderHandlers(NamedTuple):
    on_lead: list[Callable[[LeaderChange], object]]
    on_follow: list[Callable[[LeaderChange], object]]


def leader_handlers(registry: Registry) -> LeaderHandlers:
    """The functions that a program has declared. They are changed while modules are imported."""
    handlers: LeaderHandlers = registry.of_features.setdefault("standby", LeaderHandlers([], []))
    return handlers


class LeaderChange(NamedTuple):
    """The news for the functions of `on_lead` and `on_follow`: this process leads now, or leads no more."""

    leads: bool
    epoch: int
    partition: str  # empty: the daemon without partitions
