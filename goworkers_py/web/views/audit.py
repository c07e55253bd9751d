"""The audit: who has changed what, by these pages, their API, or a command."""

from __future__ import annotations

from goworkers_py.brokers.broker import Capability
from goworkers_py.web.http.params import COUNT, Param
from goworkers_py.web.site.table import Action, Data, View
from goworkers_py.web.site.visit import Visit


def listed(visit: Visit) -> Data:
    """The last changes, the newest first. `next` is the `before` of the next page."""
    if not visit.inspector.has(Capability.ADMIN):
        return {"actions": [], "next": "", "offered": False}
    limit = min(visit.args["limit"], 500)
    found = visit.inspector.actions(limit, visit.args["after"] or "")
    return {
        "actions": [entry.as_dict() for entry in found],
        "next": found[-1].position if len(found) == limit else "",
        "offered": True,
    }


VIEWS = [
    View(
        "/audit",
        "Audit",
        "audit.html",
        listed,
        (Param("after", "`next` of the former page"), Param("limit", "changes of a page, 500 at most", COUNT, 50)),
        menu="Audit",
    )
]
ACTIONS: list[Action] = []
