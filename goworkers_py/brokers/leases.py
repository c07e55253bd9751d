"""Which processes own in-progress lists, which of them live, and what becomes of the jobs of those that do not.

An owner is in `pyworkers:owners` with its queues and its origin, and lives as long as its lease. Its death is a fact
only once it stands in `pyworkers:gone`, written in the same step that looked at the lease: from then on the lease
cannot be renewed, and whoever comes by moves the jobs, each only if it is still there. The entry stays for a day,
because a process that was frozen for hours may still, when it wakes, receive a job into its old list.
"""

from __future__ import annotations

import itertools
import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goworkers_py import needs
from goworkers_py.brokers.base import DeclaredDead, Found, Judge, Presence, Recovered, Settled
from goworkers_py.connection import Connections, Script, text
from goworkers_py.courtesy import Courtesy
from goworkers_py.errors import BrokerRefused
from goworkers_py.fleet import removal
from goworkers_py.identity import certainly_dead, origin
from goworkers_py.keys import Keys
from goworkers_py.needs import WorkerEntry, worker_entry
from goworkers_py.poison import Fate
from goworkers_py.version import __version__

log = logging.getLogger(__name__)

LEASE_S = 60
# How long the lists of an owner are looked at after its death, and after its farewell.
GONE_FOR_S = 86_400
LEFT_FOR_S = 60
RECOVERED_AT_ONCE = 100

_LUA = Path(__file__).parent / "lua"
_BEAT, _BURY = (Script(_LUA / f"{name}.lua") for name in ("beat", "bury"))

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
        self._try = Courtesy("processes that have died cannot be removed from the fleet")

    def beat(self, presence: Presence) -> float:
        keys, owner, process = self._keys, presence.owner, presence.process
        entry = json.dumps(
            {
                "v": 1,
                "version": __version__,
                "speaks": sorted(needs.SPEAKS),
                "queues": dict(presence.queues),
                "trial": presence.trial,
                "trouble": presence.trouble,
                "origin": origin(),
            }
        )
        holder = keys.holder(process) if process else keys.nothing
        answer = self._connections.script(
            _BEAT, (keys.lease(owner), keys.owners, keys.gone, holder), (owner, entry, LEASE_S, keys.lease(""), process)
        )
        if answer[0] == b"gone":
            raise DeclaredDead(owner)
        if answer[0] == b"held":
            raise BrokerRefused(
                f"the process name {process!r} is in use by {text(answer[1])}, which lives: stop that one or give "
                f"this one another name (after a crash on another machine the name is free within {LEASE_S} s)"
            )
        return float(answer[1])

    def workers(self) -> list[WorkerEntry]:
        told, gone = self._connections.exchange([("HGETALL", self._keys.owners), ("HGETALL", self._keys.gone)])
        entries = {owner: entry for owner, entry in owners_of(told).items() if owner not in _pairs(gone)}
        leases = self._connections.exchange([("EXISTS", self._keys.lease(owner)) for owner in entries])
        return [
            worker_entry(owner, entry) for (owner, entry), lives in zip(entries.items(), leases, strict=True) if lives
        ]

    def recover(self, owner: str, judge: Judge, by_lease: bool) -> list[Recovered]:
        owners, gone, (now, _) = self._connections.exchange(
            [("HGETALL", self._keys.owners), ("HGETALL", self._keys.gone), ("TIME",)]
        )
        forget_at = _pairs(gone)
        dead = {
            other: entry
            for other, entry in owners_of(owners).items()
            if other != owner and (other in forget_at or self._bury(other, entry["origin"], by_lease))
        }
        recovered = self._move_all(dead, judge)
        past = {other: entry for other, entry in dead.items() if float(forget_at.get(other, "inf")) < float(now)}
        self._forget(past)
        return recovered

    def leave(self, owner: str) -> list[Recovered]:
        told = self._connections.call("HGET", self._keys.owners, owner)
        if told is None:
            return []
        keys = (self._keys.lease(owner), self._keys.gone)
        self._connections.script(_BURY, keys, (owner, "certain", LEFT_FOR_S))
        return self._move_all({owner: json.loads(told)}, lambda found: Fate(found.raw))

    def _forget(self, past: Mapping[str, Mapping[str, Any]]) -> None:
        """Owners into whose lists nothing can come any more, unless something is left that could not be moved."""
        for other, entry in past.items():
            lists = [("LLEN", self._keys.inprogress(queue, other)) for queue in entry["queues"]]
            if all(length == 0 for length in self._connections.answers(lists)):
                self._connections.transaction([("HDEL", key, other) for key in (self._keys.owners, self._keys.gone)])

    def _bury(self, other: str, told_origin: Mapping[str, Any], by_lease: bool) -> bool:
        certain = certainly_dead(told_origin)
        if not certain and not by_lease:
            return False
        keys = (self._keys.lease(other), self._keys.gone)
        dead = bool(self._connections.script(_BURY, keys, (other, "certain" if certain else "", GONE_FOR_S)))
        if dead:
            # Not in the script: the server refuses the whole of it to a user who may not touch these keys.
            self._try(lambda: self._connections.transaction(removal(self._keys, other)))
        return dead

    def _move_all(self, dead: Mapping[str, Mapping[str, Any]], judge: Judge) -> list[Recovered]:
        places = [(owner, queue) for owner, entry in dead.items() for queue in entry["queues"]]
        lists = [("LLEN", self._keys.inprogress(queue, owner)) for owner, queue in places]
        recovered: list[Recovered] = []
        for (owner, queue), length in zip(places, self._connections.answers(lists), strict=True):
            if length is None:
                log.error("jobs of %s in queue %s cannot be recovered: their key is no list", owner, queue)
            elif length:
                recovered += self._move(owner, queue, dead[owner], judge)
        return recovered

    def _move(self, owner: str, queue: str, entry: Mapping[str, Any], judge: Judge) -> list[Recovered]:
        """Oldest first to where it belongs, each only if it is still there: another recoverer may be at it too."""
        key, mover = self._keys.inprogress(queue, owner), secrets.token_hex(6)
        recovered: list[Recovered] = []
        for number in itertools.count():
            listed = self._connections.call("LRANGE", key, -RECOVERED_AT_ONCE, -1)
            if not listed:
                break
            # Jobs are begun in the order in which they were fetched, so only the oldest can have been.
            begun = max(0, entry["queues"][queue] - number * RECOVERED_AT_ONCE)
            jobs = [
                Recovered(queue, owner, raw, judge(Found(queue, owner, raw, position < begun, entry["trial"])))
                for position, raw in enumerate(reversed(listed))
            ]
            results = self._end(mover, number, queue, [(owner, job.raw, _place(job.fate)) for job in jobs])
            recovered += [job for job, result in zip(jobs, results, strict=True) if result is True]
            errors = [result for result in results if isinstance(result, str)]
            if errors:
                log.error("jobs of %s in queue %s cannot be recovered: %s", owner, queue, errors[0])
                break
        return recovered


def _place(fate: Fate) -> Place:
    if fate.buried:
        return "dead", 0, fate.payload
    if fate.discarded:
        return "fail", 0, b""
    return "back", 0, fate.payload


def owners_of(told: Sequence[bytes]) -> dict[str, dict[str, Any]]:
    """What each owner told with its last beat, from the reply to HGETALL of `keys.owners`."""
    return {owner: json.loads(entry) for owner, entry in _pairs(told).items()}


def _pairs(flat: Sequence[bytes]) -> dict[str, bytes]:
    return {text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
