"""The pyworkers processes of this machine, as the server knows them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from goworkers_py.connection import Connections
from goworkers_py.identity import certainly_dead, origin
from goworkers_py.keys import Keys


@dataclass(frozen=True, slots=True)
class Neighbour:
    identity: str
    queues: list[str]
    trouble: str  # why it fetches no jobs; empty while it does


def neighbours(connections: Connections, keys: Keys, queues: Collection[str] = ()) -> list[Neighbour]:
    """Those that live, with a lease that runs, and work one of `queues`, or any."""
    machine = origin()["machine"]
    told = connections.call("HGETALL", keys.owners)
    entries = {who.decode(): json.loads(entry) for who, entry in zip(told[::2], told[1::2], strict=True)}
    near = {
        who: entry
        for who, entry in entries.items()
        if entry["origin"]["machine"] == machine
        and not certainly_dead(entry["origin"])
        and (not queues or not set(queues).isdisjoint(entry["queues"]))
    }
    leases = connections.answers([("EXISTS", keys.lease(who)) for who in near])
    return [
        Neighbour(who, sorted(entry["queues"]), entry.get("trouble", ""))
        for (who, entry), lease in zip(near.items(), leases, strict=True)
        if lease
    ]
