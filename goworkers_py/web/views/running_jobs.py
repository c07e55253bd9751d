"""Jobs that run: which do, and cancelling some or all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from goworkers_py.admin.audit import scope_of
from goworkers_py.admin.filter import Filter, Refined, Wanted, counted
from goworkers_py.brokers.contracts.fleet import Running
from goworkers_py.features.cancelling.admin import IN_OTHERS, CancelCounts
from goworkers_py.web.http.params import TEXTS, YES_NO, Param
from goworkers_py.web.site.table import Action, ActionDone, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.bulk import selected
from goworkers_py.web.views.filters import FILTER, QUEUE, filter_of, wanted_of
from goworkers_py.web.views.job_sorting import RUNNING_JOBS, window
from goworkers_py.web.views.rows import row_of
from goworkers_py.wire.stored_job import StoredJob

AGE_S = 2.0
WAIT_S = 2.0  # until the processes have confirmed a cancel


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


def _cancel(visit: Visit) -> ActionDone:
    """Cancels the selected jobs that run, or all that run and fit. Those that wait stay."""
    visit.trace.scope = _scope(visit)
    counts = visit.inspector.cancel_all(_chosen(visit), timeout=WAIT_S, only_running=True)
    sentences = [f"{counted(counts.cancelled)} cancelled"]
    sentences += [f"{counts.requested} to be cancelled: no process has confirmed it yet"] if counts.requested else []
    sentences += [f"{counts.too_late} had ended before"] if counts.too_late else []
    sentences += [f"{counts.foreign} not cancelled: {IN_OTHERS}"] if counts.foreign else []
    result = {"requested": counts.requested, "too_late": counts.too_late, "foreign": counts.foreign}
    return ActionDone("; ".join(sentences), counts.cancelled, result=result)


def _scope(visit: Visit) -> str:
    if keys := set(visit.args["job"]):
        return f"{counted(len(keys))} selected of those that run"
    wanted = scope_of(_filter(visit))
    return f"all that run, {wanted}" if wanted else "all that run"


def _filter(visit: Visit) -> Filter:
    return replace(filter_of(visit), queue=visit.args["queue"] or "")


def _ask(visit: Visit) -> str:
    found: CancelCounts = visit.inspector.cancel_all(_chosen(visit), dry_run=True, only_running=True)
    wanted = _filter(visit)
    which = "" if visit.args["job"] or wanted.empty else f" {wanted}"
    foreign = f" {found.foreign} more stay: {IN_OTHERS}." if found.foreign else ""
    return f"Cancel {counted(found.cancelled)}{which} in the middle of their runs?{foreign}"


def _chosen(visit: Visit) -> Wanted:
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
_JOBS = {"type": "integer"}
ACTIONS = [
    Action("/jobs/cancel", _cancel, FIELDS, _ask, result={"requested": _JOBS, "too_late": _JOBS, "foreign": _JOBS}),
]
VIEWS: Sequence[View] = ()  # the list is part of `/jobs`
