"""Cancels a job, or some or all of those that run."""

from __future__ import annotations

from goworkers_py.admin.filter import counted
from goworkers_py.features.cancelling.admin import IN_OTHERS, CancelCounts, not_obeyed
from goworkers_py.web.http.params import SPAN, YES_NO, Param
from goworkers_py.web.site.table import Action, ActionDone, FeaturePages
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.job_actions import JID
from goworkers_py.web.views.running_jobs import FIELDS, chosen, filter_of_running, scope_of_chosen

LONGEST_WAIT_S = 10.0
WAIT_S = 2.0  # until the processes have confirmed a cancel

_ANSWERS = {
    "cancelled": "is cancelled",
    "interrupted": "is interrupted, and will run again",
    "requested": "is to be cancelled: no process has confirmed it yet",
    "too late": "had ended before",
    "not found": "is found nowhere",
    "not running": "does not run",
    "runs in Ruby": f"runs in Ruby, which does not obey a cancel: {not_obeyed('runs in Ruby')}",
    "runs in Go": f"runs in Go, which does not obey a cancel: {not_obeyed('runs in Go')}",
}


def _cancel(visit: Visit) -> ActionDone:
    """Cancels a job, wherever it waits or runs. With `retry`, interrupts a running job only, which is then retried.
    `answer` is cancelled, interrupted, requested, too late, not found, not running, runs in Ruby or runs in Go. The
    last two say that the job goes on."""
    jid = visit.args["jid"]
    timeout = min(max(0.0, visit.args["timeout"]), LONGEST_WAIT_S)
    answer = visit.inspector.cancel(jid, retry=visit.args["retry"], timeout=timeout)
    done = answer in ("cancelled", "interrupted")
    return ActionDone(f"job {jid} {_ANSWERS[answer]}", int(done), result={"answer": answer})


def _ask_cancel(visit: Visit) -> str:
    return "" if visit.args["retry"] else f"Cancel job {visit.args['jid']} for good?"


def _cancel_running(visit: Visit) -> ActionDone:
    """Cancels the selected jobs that run, or all that run and fit. Those that wait stay."""
    visit.trace.scope = scope_of_chosen(visit)
    counts = visit.inspector.cancel_all(chosen(visit), timeout=WAIT_S, only_running=True)
    sentences = [f"{counted(counts.cancelled)} cancelled"]
    sentences += [f"{counts.requested} to be cancelled: no process has confirmed it yet"] if counts.requested else []
    sentences += [f"{counts.too_late} had ended before"] if counts.too_late else []
    sentences += [f"{counts.foreign} not cancelled: {IN_OTHERS}"] if counts.foreign else []
    result = {"requested": counts.requested, "too_late": counts.too_late, "foreign": counts.foreign}
    return ActionDone("; ".join(sentences), counts.cancelled, result=result)


def _ask_running(visit: Visit) -> str:
    found: CancelCounts = visit.inspector.cancel_all(chosen(visit), dry_run=True, only_running=True)
    wanted = filter_of_running(visit)
    which = "" if visit.args["job"] or wanted.empty else f" {wanted}"
    foreign = f" {found.foreign} more stay: {IN_OTHERS}." if found.foreign else ""
    return f"Cancel {counted(found.cancelled)}{which} in the middle of their runs?{foreign}"


_JOBS = {"type": "integer"}
PAGES = FeaturePages(
    actions=[
        Action(
            "/job/cancel", _cancel,
            (
                JID,
                Param("retry", "interrupt a running job only; it is retried as after a failure", YES_NO, False),
                Param("timeout", "how long to wait until a process has met the job, 10 s at most", SPAN, 2.0),
            ),
            _ask_cancel,
        ),
        Action(
            "/jobs/cancel", _cancel_running, FIELDS, _ask_running,
            result={"requested": _JOBS, "too_late": _JOBS, "foreign": _JOBS},
        ),
    ],
    job_tools="job_cancel.html",
    running_tools=[("/jobs/cancel", "Cancel")],
)  # fmt: skip
