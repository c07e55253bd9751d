"""Leases: which processes own in-progress lists, which of them live, and how the jobs of dead owners are recovered.

Each owner has an entry with its queues and its origin in `pyworkers:owners`, and a lease. Owners of blocks of code have
theirs in `pyworkers:blocks`, where older releases do not take them for processes. An owner whose lease is missing is
declared dead by an entry in `pyworkers:gone`, which is written in the same step that looks at the lease. After that
step the lease cannot be renewed, and any process that recovers moves the owner's jobs, each only if it is still in its
list. Both entries stay for a day: a process that was frozen for hours may fetch a job into its old list when it wakes.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from goworkers_py.brokers.contracts.recoverable import (
    GONE_FOR_S,
    Beat,
    DeclaredDead,
    Judge,
    LiveProcess,
    Presence,
    Recoverable,
    Recovered,
    left_behind,
)
from goworkers_py.brokers.redis.driver.best_effort import BestEffort
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Script, text
from goworkers_py.brokers.redis.driver.replies import list_of, one_of
from goworkers_py.brokers.redis.fleet.membership import removal
from goworkers_py.brokers.redis.fleet.owner_entry import OwnerEntry, read_entries
from goworkers_py.brokers.redis.fleet.recovery import Recovery, without_conviction_where_several_died
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.settlement import RedisSettlement
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.identity import is_identity
from goworkers_py.core.proc import certainly_dead, origin
from goworkers_py.core.timing import TIMING
from goworkers_py.core.values import dataclass

log = logging.getLogger(__name__)

# The life of `pyworkers:gone` when no process adds to it.
GONE_LIVES_S = 2 * GONE_FOR_S
# For so long after a death every recovery removes the dead process from the fleet that people see.
REMOVED_FOR_S = 60.0
# How often a beat tries again when the holder of the fixed process name has changed between two commands.
HOLDERS_AT_MOST = 3

_BEAT = Script(LUA / "beat.lua", list_of(bytes))
_DECLARE_DEAD = Script(LUA / "declare_dead.lua", one_of(int))


@dataclass(slots=True)
class _Beats:
    """The beats of an identity of this process. Only the thread that beats for it changes this."""

    sent: int = 0
    confirmed: str = ""  # the number of the last one that the server has confirmed
    began: float = 0.0  # the server's time at the first one
    heard: float = 0.0  # at the last one


class RedisLeases(Recoverable):
    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        settlement: RedisSettlement,
        end_lines: Callable[[], bool],
        lease_s: float = TIMING.lease_s,
    ) -> None:
        """`end_lines` closes the fetchers' connections. True when nothing that was sent over them can still arrive."""
        self._connections = connections
        self._keys = keys
        self._recovery = Recovery(connections, keys, settlement)
        self._end_lines = end_lines
        self._lease_s = int(lease_s)  # EX takes whole seconds only
        self._try = BestEffort("processes that have died cannot be removed from the fleet")
        self._beats: dict[str, _Beats] = {}  # by identity; an entry ends when the identity has ended or is dead
        self._warned = False
        self.deaths = 0

    def beat(self, presence: Presence) -> Beat:
        owner = presence.identity
        beats = self._beats.setdefault(owner, _Beats())
        entry = OwnerEntry(presence.queues, presence.alone, presence.trouble, origin(), beats.began, beats.heard)
        beats.sent += 1
        answer = self._beat_as(presence, entry.to_json(), beats.sent)
        if answer[0] == b"gone":
            self._beats.pop(owner, None)
            raise DeclaredDead(owner)
        if answer[0] == b"late":
            raise BrokerUnavailable("this beat was overtaken by a later one")
        expected, beats.confirmed = beats.confirmed, str(beats.sent)
        beats.heard = now = float(answer[1])
        beats.began = beats.began or now
        return Beat(now, kept=text(answer[2]) == expected, proof=beats.confirmed)

    def _beat_as(self, presence: Presence, entry: str, number: int) -> Any:
        keys, process, owner = self._keys, presence.process, presence.identity
        registry = keys.blocks if presence.blocks else keys.owners
        holder, answer = "", [b"changed"]
        for _ in range(HOLDERS_AT_MOST):
            if answer[0] != b"changed":
                break
            if process:
                holder = text(self._connections.call("GET", keys.holder(process)) or b"")
            names = (keys.holder(process), keys.lease(holder)) if process else (keys.nothing, keys.nothing)
            answer = self._connections.script(
                _BEAT,
                (keys.lease(owner), registry, keys.gone, *names),
                (owner, entry, self._lease_s, number, "named" if process else "", holder),
            )
        if answer[0] in (b"held", b"changed"):
            raise BrokerRefused(
                f"the process name {process!r} is in use by {holder}, which lives: stop that process, or "
                f"give this process another name (after a crash on another machine it is free within {self._lease_s} s)"
            )
        return answer

    def live_processes(self) -> list[LiveProcess]:
        owners, gone = self._connections.exchange([("HGETALL", self._keys.owners), ("HGETALL", self._keys.gone)])
        entries, _ = read_entries(owners)
        for owner in _pairs(gone):
            entries.pop(owner, None)
        leased = self._leased(entries)
        return [
            LiveProcess(owner, entry.queues, entry.version, entry.speaks)
            for owner, entry in entries.items()
            if owner in leased
        ]

    def _leased(self, owners: Iterable[str]) -> set[str]:
        """The owners that have a lease now, found in one round trip for all of them."""
        owners = list(owners)
        leases = self._connections.exchange([("EXISTS", self._keys.lease(owner)) for owner in owners])
        return {owner for owner, there in zip(owners, leases, strict=True) if there}

    def recover(self, identity: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        owners, blocks, gone, (seconds, microseconds) = self._connections.exchange(
            [*(("HGETALL", key) for key in (self._keys.owners, self._keys.blocks, self._keys.gone)), ("TIME",)]
        )
        now = int(seconds) + int(microseconds) / 1e6
        forget_at = {other: _number(moment) for other, moment in _pairs(gone).items()}
        entries, unreadable = read_entries(owners)
        of_blocks, unreadable_of_blocks = read_entries(blocks)
        self._warn_of(unreadable)
        without_entry = forget_at.keys() - {*entries, *of_blocks, *unreadable, *unreadable_of_blocks}
        entries.pop(identity, None)
        not_yet_dead = {other: entry for other, entry in {**of_blocks, **entries}.items() if other not in forget_at}
        found = set(self._find_dead(identity, not_yet_dead, proof))
        dead = {other: entry for other, entry in entries.items() if other in found or other in forget_at}
        died_at = {other: now if other in found else forget_at[other] - GONE_FOR_S for other in dead}
        self._remove_from_fleet(other for other in dead if died_at[other] > now - REMOVED_FOR_S)
        yield from self._recovery.move_all(without_conviction_where_several_died(died_at, entries, now), judge)
        past = {**of_blocks, **dead}
        self._forget({other: entry for other, entry in past.items() if forget_at.get(other, math.inf) < now})
        if over := [other for other in without_entry if forget_at[other] < now]:
            self._connections.call("HDEL", self._keys.gone, *over)

    def declare_dead(self, identity: str, proof: str | None, owners: Collection[str]) -> None:
        names = [*owners]
        registries = self._keys.owners, self._keys.blocks
        replies = self._connections.exchange([("HMGET", key, *names) for key in registries]) if names else []
        raw_entries = [
            (name, raw) for reply in replies for name, raw in zip(names, reply, strict=True) if raw is not None
        ]
        entries = {name: entry for name, raw in raw_entries if (entry := OwnerEntry.read(raw)) is not None}
        for _ in self._find_dead(identity, entries, proof):
            pass

    def end_blocks(self, identity: str) -> None:
        self._beats.pop(identity, None)
        # First the entry: with a lease and without an entry, the owner still lives.
        self._connections.exchange([("HDEL", self._keys.blocks, identity), ("DEL", self._keys.lease(identity))])

    def _warn_of(self, unreadable: Sequence[str]) -> None:
        if unreadable and not self._warned:
            self._warned = True
            log.warning(
                "cannot read the entries of these owners, so their jobs are not recovered here (the release that wrote "
                "the entries recovers them): %s", ", ".join(unreadable)
            )  # fmt: skip

    def lost(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        lists = [*dict.fromkeys(self._keys.inprogress(delivery.queue, delivery.identity) for delivery in deliveries)]
        replies = self._connections.answers([("LRANGE", key, 0, -1) for key in lists])
        held = {key: Counter(listed) for key, listed in zip(lists, replies, strict=True) if listed is not None}
        lost = []
        for delivery in deliveries:
            there = held.get(self._keys.inprogress(delivery.queue, delivery.identity))
            if there is not None:  # None: the key is damaged, which proves nothing
                there[delivery.payload] -= 1
                if there[delivery.payload] < 0:
                    lost.append(delivery)
        return lost

    def leave(self, identity: str, silent: bool = True) -> Iterator[Recovered]:
        # A BRPOPLPUSH that this process has sent may still arrive and put a job into its list. Then the entry of this
        # identity stays, and recoveries look at its lists for as long as at those of a dead process.
        ended = self._end_lines() and silent
        raw = self._connections.call("HGET", self._keys.owners, identity)
        entry = None if raw is None else OwnerEntry.read(raw)
        if entry is None:
            return
        self._declare_dead("", identity, "certain", "")
        self._beats.pop(identity, None)
        yield from self._recovery.move_all({identity: entry}, left_behind)
        if ended:
            self._forget({identity: entry})

    def _forget(self, past: Mapping[str, OwnerEntry]) -> None:
        """Forgets owners whose lists can get no job any more, unless a job is left that could not be moved."""
        for other, entry in past.items():
            lists = [("LLEN", self._keys.inprogress(queue, other)) for queue in entry.queues]
            if all(length == 0 for length in self._connections.answers(lists)):
                # No transaction, because a full server refuses every one. If only the first HDEL is done, the entry in
                # `gone` is left, and a later recovery removes it when its time is over. One is left too where an owner
                # ends between the two steps in which a recovery reads the entries and declares the silent ones dead.
                keys = self._keys.owners, self._keys.blocks, self._keys.gone
                self._connections.exchange([("HDEL", key, other) for key in keys])

    def _find_dead(self, owner: str, others: Mapping[str, OwnerEntry], proof: str | None) -> Iterator[str]:
        # One EXISTS for all owners first: declare_dead.lua is called only for those without a lease. In a large fleet
        # far from its server, a call for each living owner would take longer than the time between two beats. The next
        # beat makes the proof invalid, so the last owners would never be declared dead.
        leased = self._leased(others) if proof is not None else set(others)
        for other, entry in others.items():
            certain = certainly_dead(entry.origin)
            if (certain or other not in leased) and self._declare_dead(
                owner, other, "certain" if certain else "", proof or ""
            ):
                self.deaths += 1
                yield other

    def _remove_from_fleet(self, others: Iterable[str]) -> None:
        """Not done in declare_dead.lua: the server would refuse the whole script to a user who may not use these keys.
        Later recoveries do it again, because a process that has just declared others dead may die before this step."""
        for other in filter(is_identity, others):
            self._try(lambda other=other: self._connections.transaction(removal(self._keys, other)))  # type: ignore[misc]

    def _declare_dead(self, owner: str, other: str, certain: str, proof: str) -> bool:
        keys = (self._keys.lease(other), self._keys.gone, self._keys.lease(owner) if owner else self._keys.nothing)
        beats = self._beats.get(owner)
        proof_ends_at = int((beats.heard if beats is not None else 0.0) + self._lease_s / 2)
        arguments = (other, certain, GONE_FOR_S, GONE_LIVES_S, proof, proof_ends_at)
        answer: int = self._connections.script(_DECLARE_DEAD, keys, arguments)
        return answer == 1


def _number(moment: bytes) -> float:
    try:
        return float(moment)
    except ValueError:
        return math.inf


def _pairs(flat: Sequence[bytes]) -> dict[str, bytes]:
    return {text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
