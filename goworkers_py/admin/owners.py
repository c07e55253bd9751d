"""The processes that answer for in-progress lists, and which of them live."""

from __future__ import annotations

from dataclasses import dataclass

from goworkers_py.admin.processes import number
from goworkers_py.brokers.redis.connection import Connections, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.owner_entry import read_entries
from goworkers_py.core.proc import certainly_dead, origin, stopped

# Four beats.
SILENT_AFTER_S = 20.0


@dataclass(frozen=True, slots=True)
class Owner:
    identity: str
    queues: list[str]
    here: bool  # on this machine
    trouble: str  # why it fetches no jobs; empty while it does, or is dead
    alive: bool
    dead_for_sure: bool  # otherwise, when it is not alive, it was not heard of for a minute


def unreadable_owners(connections: Connections, keys: Keys) -> list[str]:
    """Owners whose entries were written by a later release, or by a stranger. Nothing is known of their jobs."""
    return sorted(read_entries(connections.call("HGETALL", keys.owners))[1])


def all_owners(connections: Connections, keys: Keys) -> list[Owner]:
    """Of every process of ours, and for a while of those that have ended."""
    told, gone, (now, _) = connections.exchange([("HGETALL", keys.owners), ("HGETALL", keys.gone), ("TIME",)])
    declared_dead, machine = {text(identity) for identity in gone[::2]}, origin()["machine"]
    entries = sorted(read_entries(told)[0].items())
    leases = connections.exchange([("EXISTS", keys.lease(identity)) for identity, _ in entries])
    beats = connections.answers([("HGET", keys.member(identity), "beat") for identity, _ in entries])
    owners = []
    for (identity, entry), lease, beat in zip(entries, leases, beats, strict=True):
        sure = identity in declared_dead or certainly_dead(entry.origin)
        alive = bool(lease) and not sure
        silent_s = int(now) - number(beat) if beat else 0.0
        owners.append(
            Owner(
                identity,
                queues=sorted(entry.queues),
                here=entry.origin.get("machine") == machine,
                trouble=_trouble(alive, silent_s, stopped(entry.origin), entry.trouble),
                alive=alive,
                dead_for_sure=sure,
            )
        )
    return owners


def _trouble(alive: bool, silent_s: float, is_stopped: bool, told: str) -> str:
    if is_stopped and not alive:
        return "is stopped (SIGSTOP), and its lease has expired"
    if alive and silent_s > SILENT_AFTER_S:
        why = "it is stopped (SIGSTOP)" if is_stopped else "it stands still, or cannot reach Redis"
        return f"was not heard of for {silent_s:.0f} s: {why}"
    return told if alive else ""
