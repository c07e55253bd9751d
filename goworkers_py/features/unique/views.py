"""The page of locks, which unique jobs hold; a lock is freed there. And the lock on the page of a job."""

from __future__ import annotations

import itertools

from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.payload import lock_of
from goworkers_py.web.http.params import Param
from goworkers_py.web.site.snapshots import SOON_S
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, ActionDone, Data, FeaturePages, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.wire.message import Message

LOCK = Param("name", "name of the lock", needed=True)
MOST_LOCKS = 200

LOCKS = Columns("name", "jid", "expires_at", "begun")


def locks(visit: Visit) -> Data:
    """Locks that unique jobs hold. `prefix` is the beginning of their names, which begin with the class."""
    prefix = visit.args["prefix"] or ""
    offered = visit.inspector.has(Locks)

    def some() -> list[dict[str, object]]:
        found = itertools.islice(visit.inspector.locks(prefix), MOST_LOCKS)
        return [
            {
                "name": lock.name, "jid": lock.holder.jid, "expires_at": lock.expires_at, "begun": lock.begun,
                "replaced": lock.replaced,
            }
            for lock in found
        ]  # fmt: skip

    shown = visit.panel(f"locks {prefix}", SOON_S, some) if offered else None
    found = shown.value or [] if shown else []
    return {
        "locks": LOCKS.sorted(found, visit.args["sort"]), "counted": shown, "prefix": prefix, "most": MOST_LOCKS,
        "offered": offered,
    }  # fmt: skip


def _free(visit: Visit) -> ActionDone:
    """Ends a lock, whatever its job does: from then on another job of this key may be pushed."""
    done = visit.inspector.free_lock(visit.args["name"])
    return ActionDone(f"lock {visit.args['name']} " + ("is free" if done else "was free before"), int(done))


def job_facts(message: Message | None, line: str) -> Data:
    lock = None if message is None else lock_of(message.fields)
    return {"lock": None if lock is None else {"name": lock.name, "seconds": lock.for_s, "until": lock.until}}


PAGES = FeaturePages(
    views=[
        View(
            "/locks", "Locks", "locks.html", locks,
            (Param("prefix", "how the names of the locks begin"), LOCKS.param), menu="Locks",
        ),
    ],
    actions=[
        Action(
            "/lock/free",
            _free,
            (LOCK,),
            lambda visit: f"Free the lock {visit.args['name']}? Its job may still run, and another one beside it then.",
        ),
    ],
    job_facts=job_facts,
    job_rows="job_lock.html",
)  # fmt: skip
