"""Asks before many jobs are changed, or any are lost: how many, of which state, and what goes with them."""

from __future__ import annotations

import time
from collections.abc import Callable

from goworkers_py.admin.filter import counted
from goworkers_py.admin.places import DEAD
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.core.job_state import JobState
from goworkers_py.web.site.filters import number
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.filters import filter_of, place_of, wanted_of

# How long jobs are counted for a question. Of a large place the rest is estimated.
COUNT_S = 0.3


def question(verb: str, to: Callable[[Visit], str] = lambda visit: "") -> Callable[[Visit], str]:
    """Asks before all jobs of a filter are changed, or any are deleted. `to` tells where the jobs come."""

    def ask(visit: Visit) -> str:
        args = visit.args
        state = args["state"] if args["state"] != JobState.WAITING.value else f"queue {args['queue']}"
        state += f" of partition {visit.partition}" if visit.partition else ""
        place = place_of(args["state"], args["queue"] or "")
        if args["job"]:
            return _of_selection(visit, verb, state)
        size = visit.inspector.count(place)
        wanted = filter_of(visit)
        if wanted.empty:
            lost = _trimmed(visit, size) if verb == "Kill" else ""
            return f"{verb} all of {counted(size)} in {state}{to(visit)}?{lost}"
        fit, sentence = _fitting(visit, place, size)
        return (
            f"{verb} all jobs {wanted} among {counted(size)} in {state}{to(visit)}? {sentence}"
            f"{_trimmed(visit, fit) if verb == 'Kill' else ''}"
        )

    return ask


def _of_selection(visit: Visit, verb: str, state: str) -> str:
    """Only where jobs are lost."""
    chosen = len(set(visit.args["job"]))
    if verb == "Delete":
        return f"Delete {counted(chosen)} of {state} for good?"
    lost = _trimmed(visit, chosen) if verb == "Kill" else ""
    return f"Kill {counted(chosen)} of {state}?{lost}" if lost else ""


def _fitting(visit: Visit, place: Place, size: int) -> tuple[int, str]:
    """Counts the jobs that fit now, and makes the sentence about it."""
    fit = looked_at = 0
    until = time.monotonic() + COUNT_S
    for read, step in visit.inspector.delete(place, wanted_of(visit), dry_run=True):
        looked_at += read
        fit += step.done
        if time.monotonic() >= until and looked_at < size:
            about = round(fit * size / looked_at)
            return about, f"About {number(about)} fit, as the first {number(looked_at)} tell."
    return fit, f"{number(fit)} {'fits' if fit == 1 else 'fit'} now."


def _trimmed(visit: Visit, killed: int) -> str:
    """Warns that a kill deletes dead jobs: those beyond as many as this program keeps."""
    most = visit.host.config.dead_max_jobs
    gone = visit.inspector.count(DEAD) + killed - most
    if gone <= 0:
        return ""
    return (
        f" Only the newest {number(most)} dead jobs are kept (dead_max_jobs of this program): about {number(gone)} "
        "will be deleted for good."
    )
