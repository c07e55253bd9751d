"""The processes that answer for in-progress lists, and which of them live."""

from __future__ import annotations

from dataclasses import dataclass

from goworkers_py.connection import Connections, text
from goworkers_py.identity import certainly_dead, origin
from goworkers_py.keys import Keys
from goworkers_py.owner_entry import read_entries


@dataclass(frozen=True, slots=True)
class Owner:
    identity: str
    queues: list[str]
    here: bool  # on this machine
    trouble: str  # why it fetches no jobs; empty while it does
    alive: bool
    dead_for_sure: bool  # otherwise, when it is not alive, it was not heard of for a minute


def all_owners(connections: Connections, keys: Keys) -> list[Owner]:
    """Of every process of ours, and for a while of those that have ended."""
    told, gone = connections.exchange([("HGETALL", keys.owners), ("HKEYS", keys.gone)])
    declared_dead, machine = {text(identity) for identity in gone}, origin()["machine"]
    entries = sorted(read_entries(told)[0].items())
    leases = connections.exchange([("EXISTS", keys.lease(identity)) for identity, _ in entries])
    owners = []
    for (identity, entry), lease in zip(entries, leases, strict=True):
        sure = identity in declared_dead or certainly_dead(entry.origin)
        owners.append(
            Owner(
                identity,
                queues=sorted(entry.queues),
                here=entry.origin.get("machine") == machine,
                trouble=entry.trouble,
                alive=bool(lease) and not sure,
                dead_for_sure=sure,
            )
        )
    return owners
