"""Which processes own in-progress lists, which of them live, and what becomes of the jobs of those that do not.

An owner is in `pyworkers:owners` with its queues and its origin, and lives as long as its lease. Its death is a fact
only once it stands in `pyworkers:gone`, written in the same step that looked at the lease: from then on the lease
cannot be renewed, and whoever comes by moves the jobs, each only if it is still there. The entry stays for a day,
because a process that was frozen for hours may still, when it wakes, receive a job into its old list.
"""

from __future__ import annotations

import itertools
import logging
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goworkers_py.brokers.contracts import Beat, DeclaredDead, Found, Judge, Presence, Recovered, Settled, WorkerEntry
from goworkers_py.brokers.redis.best_effort import BestEffort
from goworkers_py.brokers.redis.connection import Connections, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.membership import removal
from goworkers_py.brokers.redis.owner_entry import OwnerEntry, read_entries
from goworkers_py.brokers.redis.replies import list_of, one_of
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.identity import is_identity
from goworkers_py.core.proc import certainly_dead, origin
from goworkers_py.policy.poison import RecoveryDecision

log = logging.getLogger(__name__)

LEASE_S = 60
# How long the lists of an owner are looked at after its death, and how long the list of the dead lives if nobody looks.
GONE_FOR_S = 86_400
GONE_LIVES_S = 2 * GONE_FOR_S
# For so long after a death every look removes what the fleet is shown of the dead.
REMOVED_FOR_S = 60.0
# Processes of one machine whose deaths are found within this time died together.
TOGETHER_S = 3.0
# So did processes that fell silent within this time. Their leases end as far from each other as their last beats were,
# and a look may fall between. A beat may come late, so this is twice `heartbeat.BEAT_EVERY_S`.
SILENT_TOGETHER_S = 10.0
# One that lives by its lease is silent when it was not heard of for so long.
SILENT_S = LEASE_S / 2
# A process has one identity at a time, and the next one before it lets go of that.
MOST_IDENTITIES = 8
# A fixed process name changes hands between two commands that often at the most.
HOLDERS_AT_MOST = 3
RECOVERED_AT_ONCE = 100

_LUA = Path(__file__).parent / "lua"
_BEAT = Script(_LUA / "beat.lua", list_of(bytes))
_BURY = Script(_LUA / "bury.lua", one_of(int))

# What settle.lua is told of one delivery: what to do, with which score and payload where it needs them.
Place = tuple[str, float, bytes]
REMOVE: Place = ("remove", 0, b"")
Item = tuple[str, bytes, Place]  # owner, raw payload, place
End = Callable[[str, int, str, Sequence[Item]], list[Settled]]  # settler, number, queue, items


class Leases:
    def __init__(self, connections: Connections, keys: Keys, end: End) -> None:
        self._connections = connections
        self._keys = keys
        self._end = end
        self._try = BestEffort("processes that have died cannot be removed from the fleet")
        # Beats that this process has sent, and by identity the last one that the server has confirmed. One thread
        # beats at a time, and no other looks at these.
        self._beats = 0
        self._confirmed: dict[str, str] = {}
        # By identity, the server's time at the first of them and at the last.
        self._began: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._warned = False

    def beat(self, presence: Presence) -> Beat:
        owner = presence.owner
        times = self._began.get(owner, 0.0), self._heard.get(owner, 0.0)
        entry = OwnerEntry(presence.queues, presence.alone, presence.trouble, origin(), *times)
        self._beats += 1
        answer = self._beat_as(presence.process, owner, entry.to_json())
        if answer[0] == b"gone":
            raise DeclaredDead(owner)
        if answer[0] == b"late":
            raise BrokerUnavailable("this beat was overtaken by a later one")
        expected, self._confirmed[owner] = self._confirmed.get(owner, ""), str(self._beats)
        self._heard[owner] = now = float(answer[1])
        self._began.setdefault(owner, now)
        for past in list(self._began)[:-MOST_IDENTITIES]:
            del self._began[past], self._heard[past], self._confirmed[past]
        return Beat(now, kept=text(answer[2]) == expected, proof=self._confirmed[owner])

    def _beat_as(self, process: str, owner: str, entry: str) -> Any:
        keys = self._keys
        holder, answer = "", [b"changed"]
        for _ in range(HOLDERS_AT_MOST):
            if answer[0] != b"changed":
                break
            if process:
                holder = text(self._connections.call("GET", keys.holder(process)) or b"")
            names = (keys.holder(process), keys.lease(holder)) if process else (keys.nothing, keys.nothing)
            answer = self._connections.script(
                _BEAT,
                (keys.lease(owner), keys.owners, keys.gone, *names),
                (owner, entry, LEASE_S, self._beats, "named" if process else "", holder),
            )
        if answer[0] in (b"held", b"changed"):
            raise BrokerRefused(
                f"the process name {process!r} is in use by {holder}, which lives: stop that one or give "
                f"this one another name (after a crash on another machine the name is free within {LEASE_S} s)"
            )
        return answer

    def workers(self) -> list[WorkerEntry]:
        told, gone = self._connections.exchange([("HGETALL", self._keys.owners), ("HGETALL", self._keys.gone)])
        entries, _ = read_entries(told)
        for owner in _pairs(gone):
            entries.pop(owner, None)
        leased = self._leased(entries)
        return [
            WorkerEntry(owner, entry.queues, entry.version, entry.speaks)
            for owner, entry in entries.items()
            if owner in leased
        ]

    def _leased(self, owners: Iterable[str]) -> set[str]:
        """Those of them that have a lease now, in one round trip however many they are."""
        owners = list(owners)
        leases = self._connections.exchange([("EXISTS", self._keys.lease(owner)) for owner in owners])
        return {owner for owner, there in zip(owners, leases, strict=True) if there}

    def recover(self, owner: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        owners, gone, (seconds, microseconds) = self._connections.exchange(
            [("HGETALL", self._keys.owners), ("HGETALL", self._keys.gone), ("TIME",)]
        )
        now = int(seconds) + int(microseconds) / 1e6
        forget_at = {other: _number(moment) for other, moment in _pairs(gone).items()}
        entries, unreadable = read_entries(owners)
        self._warn_of(unreadable)
        entries.pop(owner, None)
        not_yet_dead = {other: entry for other, entry in entries.items() if other not in forget_at}
        found = set(self._find_dead(owner, not_yet_dead, proof))
        dead = {other: entry for other, entry in entries.items() if other in found or other in forget_at}
        died_at = {other: now if other in found else forget_at[other] - GONE_FOR_S for other in dead}
        self._remove_from_fleet(other for other in dead if died_at[other] > now - REMOVED_FOR_S)
        yield from self._move_all(_without_conviction_where_several_died(died_at, entries, now), judge)
        self._forget({other: entry for other, entry in dead.items() if forget_at.get(other, math.inf) < now})

    def _warn_of(self, unreadable: Sequence[str]) -> None:
        if unreadable and not self._warned:
            self._warned = True
            log.warning(
                "owners whose entries this release cannot read are left alone, with the jobs that they hold (a later "
                "release recovers them): %s", ", ".join(unreadable)
            )  # fmt: skip

    def leave(self, owner: str, ended: bool) -> Iterator[Recovered]:
        """`ended`: nothing that this process has sent can arrive any more. If not, its lists are looked at for as long
        as those of the dead: a late BRPOPLPUSH puts a job there."""
        told = self._connections.call("HGET", self._keys.owners, owner)
        entry = None if told is None else OwnerEntry.read(told)
        if entry is None:
            return
        self._declare_dead("", owner, "certain", "")
        yield from self._move_all({owner: entry}, lambda found: RecoveryDecision(found.raw))
        if ended:
            self._forget({owner: entry})

    def _forget(self, past: Mapping[str, OwnerEntry]) -> None:
        """Owners into whose lists nothing can come any more, unless something is left that could not be moved."""
        for other, entry in past.items():
            lists = [("LLEN", self._keys.inprogress(queue, other)) for queue in entry.queues]
            if all(length == 0 for length in self._connections.answers(lists)):
                # No transaction: a full server refuses all of them. Without its entry nobody asks whether it is gone.
                self._connections.exchange([("HDEL", key, other) for key in (self._keys.owners, self._keys.gone)])

    def _find_dead(self, owner: str, others: Mapping[str, OwnerEntry], proof: str | None) -> Iterator[str]:
        # In a large fleet far from its server a step for each of the living would take longer than from one beat to the
        # next, which makes the proof invalid: the last ones would never be looked at.
        leased = self._leased(others) if proof is not None else set(others)
        for other, entry in others.items():
            certain = certainly_dead(entry.origin)
            if (certain or other not in leased) and self._declare_dead(
                owner, other, "certain" if certain else "", proof or ""
            ):
                yield other

    def _remove_from_fleet(self, others: Iterable[str]) -> None:
        """Not in the script that declares them dead: the server refuses the whole of it to a user who may not touch
        these keys. Said again with the next looks: a process that has just declared others dead may die itself."""
        for other in filter(is_identity, others):
            self._try(lambda other=other: self._connections.transaction(removal(self._keys, other)))  # type: ignore[misc]

    def _declare_dead(self, owner: str, other: str, certain: str, proof: str) -> bool:
        keys = (self._keys.lease(other), self._keys.gone, self._keys.lease(owner) if owner else self._keys.nothing)
        proof_ends_at = int(self._heard.get(owner, 0.0) + LEASE_S / 2)
        arguments = (other, certain, GONE_FOR_S, GONE_LIVES_S, proof, proof_ends_at)
        answer: int = self._connections.script(_BURY, keys, arguments)
        return answer == 1

    def _move_all(self, dead: Mapping[str, OwnerEntry], judge: Judge) -> Iterator[Recovered]:
        places = [(owner, queue) for owner, entry in dead.items() for queue in entry.queues]
        lists = [("LLEN", self._keys.inprogress(queue, owner)) for owner, queue in places]
        for (owner, queue), length in zip(places, self._connections.answers(lists), strict=True):
            if length is None:
                log.error("jobs of %s in queue %s cannot be recovered: their key is no list", owner, queue)
            elif length:
                yield from self._move(owner, queue, dead[owner], judge)

    def _move(self, owner: str, queue: str, entry: OwnerEntry, judge: Judge) -> Iterator[Recovered]:
        """Oldest first to where it belongs, each only if it is still there: another recoverer may be at it too."""
        key, mover = self._keys.inprogress(queue, owner), secrets.token_hex(6)
        for number in itertools.count():
            listed = self._connections.call("LRANGE", key, -RECOVERED_AT_ONCE, -1)
            if not listed:
                break
            # Jobs are begun in the order in which they were fetched, so only the oldest can have been.
            begun = max(0, entry.queues[queue] - number * RECOVERED_AT_ONCE)
            jobs = [
                Recovered(queue, owner, raw, _judged(judge, Found(queue, owner, raw, position < begun, entry.alone)))
                for position, raw in enumerate(reversed(listed))
            ]
            results = self._end(mover, number, queue, [(owner, job.raw, _place(job.decision)) for job in jobs])
            yield from [job for job, result in zip(jobs, results, strict=True) if result is True]
            errors = [result for result in results if isinstance(result, str)]
            if errors:
                log.error("jobs of %s in queue %s cannot be recovered: %s", owner, queue, errors[0])
                break


def _judged(judge: Judge, found: Found) -> RecoveryDecision:
    """A payload that the judge stumbles over goes back as it is: it must not keep its neighbours from being recovered,
    nor a process from starting."""
    try:
        return judge(found)
    except Exception:
        log.exception("a job of %s in queue %s cannot be judged; it goes back to its queue", found.owner, found.queue)
        return RecoveryDecision(found.raw)


def _place(decision: RecoveryDecision) -> Place:
    return ("dead" if decision.error else "back"), 0, decision.payload


def _number(told: bytes) -> float:
    try:
        return float(told)
    except ValueError:
        return math.inf


def _without_conviction_where_several_died(
    died_at: Mapping[str, float], entries: Mapping[str, OwnerEntry], now: float
) -> dict[str, OwnerEntry]:
    """The entries of the dead. Processes of one machine that die together were killed from outside, or one of them took
    the others along. That one of them ran a suspect alone proves nothing then."""

    def died_together(owner: str, other: str) -> bool:
        one, two = entries[owner], entries[other]
        if two.origin.get("machine") != one.origin.get("machine"):
            return False
        # One that was dead when another began did not die with it.
        if one.began <= died_at.get(other, -math.inf) and abs(died_at[other] - died_at[owner]) <= TOGETHER_S:
            return True
        return two.heard < now - SILENT_S and abs(two.heard - one.heard) <= SILENT_TOGETHER_S

    return {
        owner: replace(entry, alone="")
        if entry.alone and any(died_together(owner, other) for other in entries if other != owner)
        else entry
        for owner, entry in entries.items()
        if owner in died_at
    }


def _pairs(flat: Sequence[bytes]) -> dict[str, bytes]:
    return {text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
