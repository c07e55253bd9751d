"""The processes of the fleet, in any language."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.features import BY_NAME
from goworkers_py.web.http.params import COUNT, Param
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, Data, ProcessPart, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.rows import row_of
from goworkers_py.web.views.shared import fleet_processes
from goworkers_py.wire.process_record import OURS

MOST_SHOWN, MOST_RUNNING = 500, 200

IDENTITY = Param("identity", "the process", needed=True)


def _fields_of(process: Process) -> dict[str, Any]:
    return {
        "process": process,
        "state": process.state,
        "language": process.language or "other",
        "version": process.version.removeprefix(OURS),
        "utilisation": process.busy / process.concurrency if process.concurrency else 0.0,
    }


def listed(visit: Visit) -> Data:
    """The live processes: state, queues, threads and how many of them are busy, memory, CPU (1 is one core, between
    their last two beats), since when they run and when
    they were last heard of."""
    found = sorted(fleet_processes(visit), key=lambda process: (process.partition, process.identity))
    words: dict[str, int] = {}
    for process in found:
        words[_word(process)] = words.get(_word(process), 0) + 1
    shown = COLUMNS.sorted(found, visit.args["sort"])[: min(visit.args["limit"], MOST_SHOWN)]
    return {
        "processes": [_fields_of(process) for process in shown],
        "total": len(found),
        "busy": sum(process.busy for process in found),
        "threads": sum(process.concurrency for process in found),
        "memory_kb": sum(process.rss_kb for process in found),
        "states": words,
    }


def _word(process: Process) -> str:
    return "standby" if process.standby and not process.quiet else process.state


COLUMNS = Columns(
    "identity", "busy", "cpu_share", "started_at", "beat", "partition", state=_word,
    queues=lambda process: ", ".join(process.queues), rss_kb=lambda process: process.rss_kb or None,
    program=lambda process: f"{process.language} {process.version}",
)  # fmt: skip


def details(visit: Visit) -> Data:
    """One process, with the jobs that it runs now. `here` is false for one that is not alive."""
    identity = visit.args["identity"]
    found = next((process for process in fleet_processes(visit) if process.identity == identity), None)
    if found is None:
        return {"identity": identity, "here": False, "running": []}
    running = [run for run in visit.snapshot("running", 2, visit.inspector.running) if run.identity == identity]
    return {
        "identity": identity,
        "here": True,
        **_fields_of(found),
        "running": [
            {"row": row_of(run.job, visit.hiding), "since": run.since, "queue": run.queue}
            for run in running[:MOST_RUNNING]
        ],
        "more": max(0, len(running) - MOST_RUNNING),
        **{name: value for part in _parts() for name, value in part.facts(found).items()},
    }


@cache
def _parts() -> list[ProcessPart]:
    pages = [pages for feature in BY_NAME if (pages := feature.pages()) is not None]
    return [page.of_processes for page in pages if page.of_processes is not None]


VIEWS = [
    View("/processes", "Processes", "processes.html", listed,
         (COLUMNS.param, Param("limit", f"processes that are shown, {MOST_SHOWN} at most", COUNT, MOST_SHOWN)),
         menu="Processes"),
    View("/process", "Process", "process.html", details, (IDENTITY,), "/processes"),
]  # fmt: skip
ACTIONS: Sequence[Action] = []
