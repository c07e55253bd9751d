"""Finds a page by a part of a name: queues, classes, jobs, processes, and what features have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from goworkers_py.core.errors import ArgumentError
from goworkers_py.features import BY_NAME
from goworkers_py.web.http.params import Param
from goworkers_py.web.http.response import Response, see_other
from goworkers_py.web.site.showing import cut
from goworkers_py.web.site.table import Action, Data, Hit, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.job_finding import RUNNING, SEARCH_AGE_S, SEARCH_WAIT_S, search
from goworkers_py.web.views.shared import SAMPLED, fleet_processes, fleet_stats, sampled
from goworkers_py.wire.stored_job import StoredJob

MOST, MOST_OF_A_KIND, LONGEST_NAME = 20, 8, 120
CLASSES_AGE_S = 60.0

# A jid as programs write it: 24 hexadecimal digits, a UUID, or the name that a job without one has here. Any other
# text is only compared with tracked and running jobs: the palette asks at every key.
_LIKE_A_JID = re.compile(r"[0-9a-f]{24}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|sha1:[0-9a-f]{16}").fullmatch


def find(visit: Visit) -> Data | Response:
    """Pages whose names contain `q`, in any case, 20 at most; the job with this jid first. `to` is the page's
    address."""
    text = visit.args["q"].strip()
    of_page = not visit.request.path.startswith("/api/")
    hits = [] if not text else list(islice(_hits(visit, text), MOST))
    if of_page and hits and hits[0].kind == "job":
        return see_other(hits[0].to)
    return {"q": text, "found": hits}


def _hits(visit: Visit, text: str) -> Iterator[Hit]:
    yield from _job(visit, text)
    queues = [queue.name for queue in fleet_stats(visit).queues]
    yield from (Hit(cut(name, LONGEST_NAME), "queue", visit.link("/queue", name=name)) for name in like(text, queues))
    classes = _classes(visit)
    yield from (
        Hit(cut(name, LONGEST_NAME), "class", visit.link("/metrics/class", name=name)) for name in like(text, classes)
    )
    identities = [process.identity for process in fleet_processes(visit)]
    yield from (
        Hit(cut(identity, LONGEST_NAME), "process", visit.link("/process", identity=identity))
        for identity in like(text, identities)
    )
    for feature in BY_NAME:
        if (pages := feature.pages()) is not None:
            yield from pages.finds(visit, text)


def like(text: str, names: Sequence[str]) -> list[str]:
    """The names that contain the text, in any case: first those that begin with it."""
    text = text.lower()
    found = [name for name in names if text in name.lower()]
    return sorted(found, key=lambda name: (not name.lower().startswith(text), name))[:MOST_OF_A_KIND]


def _job(visit: Visit, text: str) -> Iterator[Hit]:
    with suppress(ArgumentError):  # this cannot be a jid
        for run in visit.snapshot("running", 2, visit.inspector.running):
            if run.job.jid == text:
                yield _hit_of(visit, text, RUNNING, run.queue)
                return
        if visit.inspector.record(text) is not None:
            yield _hit_of(visit, text)
        elif _LIKE_A_JID(text):
            yield from _searched(visit, text)


def _searched(visit: Visit, jid: str) -> Iterator[Hit]:
    inspector, hiding = visit.inspector, visit.hiding
    found = visit.panel(f"search {jid}", SEARCH_AGE_S, lambda: search(inspector, jid, hiding), SEARCH_WAIT_S).value
    if found is None:  # not ended: the page of the job goes on with the search
        yield _hit_of(visit, jid)
        return
    for spot in found.spots[:1]:
        yield _hit_of(visit, jid, spot.state, spot.queue, spot.key)


def _hit_of(visit: Visit, jid: str, state: str = "", queue: str = "", key: str = "") -> Hit:
    return Hit(cut(jid, LONGEST_NAME), "job", visit.link("/job", jid=jid, state=state, queue=queue, key=key))


def _classes(visit: Visit) -> Sequence[str]:
    """The classes of failed and of running jobs, and those with code in this program."""
    found = {_class_of(run.job) for run in visit.snapshot("running", 2, visit.inspector.running)}
    for state in SAMPLED:
        if (sample := sampled(visit, state).value) is not None:
            found |= {kind.job_class for kind in sample.kinds if not kind.job_class.startswith("(")}
    found |= set(visit.panel("our classes", CLASSES_AGE_S, lambda: _our_classes(visit)).value or ())
    return sorted(found - {""})


def _our_classes(visit: Visit) -> Sequence[str]:
    work = visit.host.our_work() if not visit.partition else None
    return work.registry.names() if work is not None else []


def _class_of(job: StoredJob) -> str:
    return "" if job.message is None else job.message.job_class


VIEWS = [View("/find", "Find", "find.html", find, (Param("q", "a part of a name, or a whole jid", default=""),))]
ACTIONS: Sequence[Action] = []
