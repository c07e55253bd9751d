"""The reports that programs give by `workers.report`."""

from __future__ import annotations

from goworkers_py.brokers.broker import Capability
from goworkers_py.web.http.params import COUNT, Param
from goworkers_py.web.site.table import Action, Data, View
from goworkers_py.web.site.visit import Visit

MOST = 500


def listed(visit: Visit) -> Data:
    """The last reports, the newest first. With `after`, the next ones behind that position, the oldest first: so a
    program follows them."""
    if not visit.inspector.has(Capability.CALLS):
        return {"reports": [], "position": "", "offered": False}
    name, after = visit.args["name"] or "", visit.args["after"] or ""
    found = visit.inspector.reports(name, after, min(visit.args["limit"], MOST))
    rows = [report.as_dict() | {"body": visit.hiding.value(dict(report.body))} for report in found]
    return {
        "reports": rows if after else rows[::-1],
        "position": found[-1].position if found else after,
        "offered": True,
    }


VIEWS = [
    View(
        "/reports", "Reports", "reports.html", listed,
        (
            Param("name", "reports of this name"),
            Param("after", "`position` of a former answer"),
            Param("limit", f"reports of a page, {MOST} at most", COUNT, 50),
        ),
        menu="Reports",
    ),
]  # fmt: skip
ACTIONS: list[Action] = []
