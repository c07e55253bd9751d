"""Finds one job soon, however many jobs there are: by its time, by its record, or by a search that gives up."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field

from goworkers_py.admin.filter import Filter, Refined, Wanted, is_plain
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import TIMED, waiting_in
from goworkers_py.brokers.contracts.admin import Glance, Place
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.core.values import dataclass
from goworkers_py.web.http.budget import Budget
from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.http.params import Param
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.snapshots import PageSnapshot
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.filters import PLACES, place_of
from goworkers_py.web.views.rows import READERS, has_key, held, key_of, time_and_jid
from goworkers_py.wire.stored_job import StoredJob

WAITING, RUNNING, FETCHED = JobState.WAITING.value, "running", "fetched"
# So many jobs of one place are looked at, and so many in all for a search through all places.
MOST_LOOKED_AT, MOST_SEARCHED = 3_000, 30_000
NEXT_ONES = 1_000  # of a long queue those are looked at that run next, beside the newest
MOST_COPIES = 10
SEARCHERS = Budget(2)  # searches that read the jobs of a place at once
SEARCH_AGE_S = 30.0
FRESH_S = 2.0  # a job that is not where the last search saw it is searched for again
SEARCH_WAIT_S = 0.03  # of a page, which asks again in some seconds

NAMED: Sequence[Param] = (
    Param("jid", "the job", needed=True),
    Param("state", "where it was seen: a state of a list of jobs"),
    Param("queue", "name of the queue in which the job is"),
    Param("key", "its key, as a list gives it: with it, the job is found at once"),
)


@dataclass(frozen=True, slots=True)
class FoundOnPage:
    """A job at its place."""

    state: str
    job: StoredJob
    queue: str = ""
    process: str = ""
    since: float | None = None  # running


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a job with the jid was seen. Without its payload: pages keep many of these for a while."""

    state: str
    queue: str
    key: str
    process: str = ""


@dataclass(slots=True)
class Search:
    spots: list[Spot] = field(default_factory=list)
    looked_at: int = 0
    complete: bool = True  # every place was searched to its end
    grouped: Mapping[str, str] | None = None  # queue, class and name of the group in which it waits


class Finder:
    """Of one request."""

    def __init__(self, visit: Visit, waits: bool) -> None:
        """`waits`: for the end of a search. A page is shown without it."""
        self._visit = visit
        self._inspector: Inspector = visit.inspector
        self._waits = waits
        self.jid: str = visit.args["jid"]

    def found(self) -> FoundOnPage | None:
        args = self._visit.args
        found = self._at(args["state"] or "", args["queue"] or "", args["key"] or "") or self._placed()
        return found or self._among(self.search()) or self._among(self.search(FRESH_S))

    def _among(self, searched: PageSnapshot[Search]) -> FoundOnPage | None:
        """None also where the job has left since the search."""
        spots = searched.value.spots if searched.value is not None else []
        return next(
            (found for spot in spots if (found := self._at(spot.state, spot.queue, spot.key)) is not None), None
        )

    def search(self, max_age_s: float = SEARCH_AGE_S) -> PageSnapshot[Search]:
        """All places that hold a job with this jid, as far as they were seen."""
        name, inspector, jid, hiding = f"search {self.jid}", self._inspector, self.jid, self._visit.hiding
        if self._waits:
            self._visit.snapshot(name, max_age_s, lambda: search(inspector, jid, hiding))
        return self._visit.panel(name, max_age_s, lambda: search(inspector, jid, hiding), SEARCH_WAIT_S)

    def _placed(self) -> FoundOnPage | None:
        """By the record of a tracked job."""
        with READERS.lent(1):
            placed = self._inspector.placed(self.jid)
            if placed is None:
                return None
            place, job = placed
            return self._held(FoundOnPage(word_of(place), job, place.queue or job.queue))

    def _held(self, found: FoundOnPage) -> FoundOnPage:
        """While few read: a request that waits here has the values of a large job already."""
        held(self._visit, [found.job], copies=2)  # as they were parsed, and for JSON
        return found

    def _at(self, state: str, queue: str, key: str) -> FoundOnPage | None:
        with READERS.lent(1):
            found = self._read(state, queue, key)
            return found and self._held(found)

    def _read(self, state: str, queue: str, key: str) -> FoundOnPage | None:
        if state == RUNNING:
            return self._running()
        if state == FETCHED:
            return next(_fetched(self._inspector, self.jid), None)
        if state not in PLACES and not (state == WAITING and queue):
            return None
        place = place_of(state, queue)
        for job in _looked_for(self._inspector, place, _wanted(self.jid, place, key, self._visit.hiding)):
            return FoundOnPage(state, job, place.queue or job.queue)
        return None

    def _running(self) -> FoundOnPage | None:
        found = self._visit.snapshot("running", 2, self._inspector.running)
        for run in found:
            if run.job.jid == self.jid:
                return FoundOnPage(RUNNING, glance_of(self.jid).of(run.job), run.queue, run.identity, run.since)
        return None


def glance_of(jid: str) -> Glance:
    """Where the jid stands in its payload as it is, the payload comes up to a megabyte."""
    return Glance(jid=jid if is_plain(jid) else "")


def word_of(place: Place) -> str:
    return next((word for word, known in PLACES.items() if known == place), WAITING)


def _wanted(jid: str, place: Place, key: str, hiding: Hiding) -> Wanted:
    if not key:
        return Filter(jids=[jid])
    try:
        at, _ = time_and_jid(key)
    except ValueError:
        raise bad_request("key: this is not the key of a job in a list") from None
    timed = at if place in TIMED else None
    return Refined(Filter(jids=[jid], since=timed, until=timed), lambda job: has_key(job, (key,), hiding))


def _looked_for(inspector: Inspector, place: Place, wanted: Wanted) -> Iterator[StoredJob]:
    glance = glance_of(wanted.jids[0])
    yield from inspector.page(place, wanted, limit=1, most=MOST_LOOKED_AT, glance=glance).jobs
    if place not in TIMED:
        yield from filter(wanted.fits, inspector.first(place, NEXT_ONES, glance))


def _fetched(inspector: Inspector, jid: str) -> Iterator[FoundOnPage]:
    """Jobs in progress that no process reports as running: not begun, or their process is dead."""
    for fetched in itertools.islice(inspector.in_progress(), MOST_LOOKED_AT):
        if fetched.job.jid == jid and (fetched.running_since is None or not fetched.owner.alive):
            yield FoundOnPage(
                FETCHED, glance_of(jid).of(fetched.job), fetched.queue, fetched.owner.identity, fetched.running_since
            )


def search(inspector: Inspector, jid: str, hiding: Hiding) -> Search:
    """In the order in which a job moves, so that one that moves meanwhile is not missed."""
    made, queues = Search(), inspector.queues()
    waiting = [(WAITING, waiting_in(queue.name)) for queue in queues if queue.size]
    for word, place in [("scheduled", PLACES["scheduled"]), ("retry", PLACES["retry"]), *waiting]:
        _search_in(inspector, word, place, jid, made, hiding)
    running = [run for run in inspector.running() if run.job.jid == jid]
    made.spots += [Spot(RUNNING, run.queue, key_of(run.job, hiding), run.identity) for run in running]
    for found in _fetched(inspector, jid):
        made.spots.append(Spot(FETCHED, found.queue, key_of(found.job, hiding), found.process))
    for word in ("limited", "outbox", "dead"):
        _search_in(inspector, word, PLACES[word], jid, made, hiding)
    if not made.spots:
        with suppress(ArgumentError):  # a jid that is no text
            status = inspector.status(jid)
            if status.group:
                made.grouped = {"queue": status.queue, "class": status.job_class, "name": status.group}
    return made


def _search_in(inspector: Inspector, word: str, place: Place, jid: str, made: Search, hiding: Hiding) -> None:
    most = min(MOST_LOOKED_AT, MOST_SEARCHED - made.looked_at)
    if most <= 0:
        made.complete = False
        return
    wanted = Filter(jids=[jid])
    with SEARCHERS.lent(1):
        page = inspector.page(place, wanted, limit=MOST_COPIES, most=most, glance=Glance())
        made.looked_at += page.looked_at
        jobs = list(page.jobs)
        if page.next:
            made.complete = False
            if place not in TIMED:
                known = {job.payload for job in jobs}
                jobs += [
                    job
                    for job in inspector.first(place, NEXT_ONES, Glance())
                    if wanted.fits(job) and job.payload not in known
                ]
                made.looked_at += NEXT_ONES
    made.spots += [Spot(word, place.queue or job.queue, key_of(job, hiding)) for job in jobs]
