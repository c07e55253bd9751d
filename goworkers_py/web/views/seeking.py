"""Finds one job again that a list has shown: by its place, its time and a digest of its bytes, so that it takes no
longer among a million."""

from __future__ import annotations

import time
from dataclasses import dataclass

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.job_status import JobStatus, as_seen
from goworkers_py.admin.places import TIMED, waiting_in
from goworkers_py.core.job_state import JobState, StateWord
from goworkers_py.web.http.errors import Refused, bad_request
from goworkers_py.web.http.params import Param
from goworkers_py.web.site.snapshots import Snapshot
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.filters import PLACED, QUEUE, place_of
from goworkers_py.web.views.rows import key_of, time_and_jid
from goworkers_py.wire.job_record import says_tracked
from goworkers_py.wire.stored_job import StoredJob

# So many jobs are looked at for one that has no time to find it by.
MOST_LOOKED_AT = 3_000

JOB = (
    Param("jid", "the job's jid", needed=True),
    Param("state", "the state in which a list has shown the job"),
    QUEUE,
    Param("key", "the key of the job in that list"),
)
_WORDS: dict[str, StateWord] = {"scheduled": "scheduled", "retry": "retry", "dead": "dead"}


@dataclass(frozen=True, slots=True)
class Found:
    job: StoredJob
    state: str
    process: str = ""  # of a running job
    since: float | None = None


def by_key(visit: Visit) -> Found | None:
    """The job of the parameters; None when it has left that place."""
    args = visit.args
    if args["state"] == "running":
        return _running(visit)
    if args["state"] not in PLACED or (args["state"] == JobState.WAITING.value and not args["queue"]):
        return None
    place = place_of(args["state"], args["queue"] or "")
    at = _time_of(args["key"])
    if place in TIMED and at is not None:
        page = visit.inspector.page(place, Filter(jids=[args["jid"]], since=at, until=at), limit=20)
        candidates = list(page.jobs)
    else:
        of_jid = Filter(jids=[args["jid"]])
        candidates = [*filter(of_jid.fits, _next_to_run(visit, place.queue))]
        candidates += visit.inspector.page(place, of_jid, limit=20, most=MOST_LOOKED_AT).jobs
    exact = (job for job in candidates if not args["key"] or key_of(job) == args["key"])
    job = next(exact, None)
    return None if job is None else Found(job, args["state"])


def needed(visit: Visit) -> Found:
    found = by_key(visit)
    if found is None:
        raise Refused(404, "this job has left the place where you saw it: open its page again")
    return found


def status_of(visit: Visit, found: Found | None) -> Snapshot[JobStatus]:
    """What is known of the job. One without a record, which was not found by its key, is searched for."""
    jid = visit.args["jid"]
    message = None if found is None else found.job.message
    if found is not None and not (message is not None and says_tracked(message.fields)):
        word: StateWord = _WORDS.get(found.state) or ("running" if found.state == "running" else "waiting")
        return Snapshot(as_seen(found.job, word, found.job.queue), time.time())
    return visit.panel(f"status of {jid}", 2.0, lambda: visit.inspector.status(jid))


def _running(visit: Visit) -> Found | None:
    running = visit.snapshot("running", 2.0, visit.inspector.running)
    one = next((one for one in running if one.job.jid == visit.args["jid"]), None)
    return None if one is None else Found(one.job, "running", one.identity, one.since)


def _next_to_run(visit: Visit, queue: str) -> list[StoredJob]:
    return visit.inspector.first(waiting_in(queue), 500) if queue else []


def _time_of(key: str | None) -> float | None:
    try:
        return time_and_jid(key)[0] if key else None
    except ValueError:
        raise bad_request("key: this is not the key of a job in a list") from None
