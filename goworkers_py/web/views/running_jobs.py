"""Jobs that run: which do, and which of them people have chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from goworkers_py.admin.audit import scope_of
from goworkers_py.admin.filter import Filter, Refined, Wanted, counted
from goworkers_py.brokers.contracts.fleet import Running
from goworkers_py.web.http.params import TEXTS, YES_NO, Param
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.bulk import selected
from goworkers_py.web.views.filters import FILTER, QUEUE, filter_of, wanted_of
from goworkers_py.web.views.job_sorting import RUNNING_JOBS, window
from goworkers_py.web.views.rows import row_of
from goworkers_py.wire.stored_job import StoredJob

AGE_S = 2.0


def running(visit: Visit) -> dict[str, Any]:
    wanted = wanted_of(visit)
    found: list[Running] = visit.snapshot("running", AGE_S, visit.inspector.running)
    of_queue = [run for run in found if visit.args["queue"] in (None, "", run.queue)]
    fitting = [run for run in of_queue if wanted.fits(run.job)]
    shown, after = window(visit, RUNNING_JOBS.sorted(fitting, visit.args["sort"]), len(fitting) or 1)
    rows = [
        {"row": row_of(run.job, visit.hiding), "since": run.since, "process": run.identity, "queue": run.queue}
        for run in shown
    ]
    return {"running": rows, "next": after, "looked_at": len(of_queue), "total": len(of_queue)}


def scope_of_chosen(visit: Visit) -> str:
    if keys := set(visit.args["job"]):
        return f"{counted(len(keys))} selected of those that run"
    wanted = scope_of(filter_of_running(visit))
    return f"all that run, {wanted}" if wanted else "all that run"


def filter_of_running(visit: Visit) -> Filter:
    return replace(filter_of(visit), queue=visit.args["queue"] or "")


def chosen(visit: Visit) -> Wanted:
    queue, jids = visit.args["queue"], {jid for _, jid in selected(visit)}

    def is_chosen(job: StoredJob) -> bool:
        return queue in (None, "", job.queue) and (not jids or job.jid in jids)

    return Refined(wanted_of(visit), is_chosen)


FIELDS: Sequence[Param] = (
    QUEUE,
    Param("job", "keys of selected jobs, as a list gives them", TEXTS),
    Param("all", "all that run and fit the filter", YES_NO, False),
    *FILTER,
)
