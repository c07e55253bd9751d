"""The filter of a list of jobs: its parameters, and the places that people name by a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from goworkers_py.admin import places
from goworkers_py.admin.filter import Filter, Refined, Wanted
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.core.job_state import JobState
from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.http.params import TEXTS, TIME, Param
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.visit import Visit
from goworkers_py.wire.stored_job import StoredJob

# The words of the states whose jobs a place holds.
PLACES: Mapping[str, Place] = {
    "scheduled": places.SCHEDULED,
    "limited": places.PARKED,
    "retry": places.RETRIES,
    "dead": places.DEAD,
    "outbox": places.OUTBOX,
}
PLACED = ("waiting", *PLACES)

QUEUE = Param("queue", "jobs of this queue; of waiting jobs, the one in which they wait")
FILTER: Sequence[Param] = (
    Param("class", "jobs of this class"),
    Param("error", "a part of the error's class or message"),
    Param("tag", "jobs with this tag"),
    Param("argument", "a whole argument: a text, or JSON such as 42"),
    Param("match", "a part of the payload, as it is written"),
    Param("since", "due, dead or enqueued at this time or later", TIME),
    Param("until", "due, dead or enqueued at this time or earlier", TIME),
    Param("jid", "jobs with these jids", TEXTS),
)
NAMES = [param.name for param in FILTER]


class Unrevealing(Refined):
    """Looks for texts in what is shown only: who searches must not learn a hidden value letter by letter."""

    def __init__(self, wanted: Filter, hiding: Hiding) -> None:
        super().__init__(replace(wanted, match="", argument=""), self._fits_as_shown)
        self._all = wanted
        self._hiding = hiding

    def _fits_as_shown(self, job: StoredJob) -> bool:
        return self._all.fits(self._hiding.masked_job(job))

    def __str__(self) -> str:
        return str(self._all)


def wanted_of(visit: Visit) -> Wanted:
    wanted = filter_of(visit)
    return Unrevealing(wanted, visit.hiding) if wanted.match or wanted.argument else wanted


def filter_of(visit: Visit) -> Filter:
    """The queue is a part of the filter where a place holds jobs of many queues. Of waiting jobs it is the place."""
    args = visit.args
    of_queue = (args["queue"] or "") if args.get("state") in PLACES else ""
    return Filter(
        job_class=args["class"] or "",
        jids=tuple(args["jid"]),
        error=args["error"] or "",
        match=args["match"] or "",
        tag=args["tag"] or "",
        argument=args["argument"] or "",
        queue=of_queue,
        since=args["since"],
        until=args["until"],
    )


def place_of(state: str, queue: str = "") -> Place:
    if state == JobState.WAITING.value:
        if not queue:
            raise bad_request("queue is missing: name the queue whose jobs are meant")
        return places.waiting_in(queue)
    return PLACES[state]


def asked(visit: Visit) -> dict[str, Any]:
    """The filter as it was typed, to be kept in links and forms."""
    return {name: list(visit.request.query.get(name, ())) for name in NAMES if visit.request.query.get(name)}
