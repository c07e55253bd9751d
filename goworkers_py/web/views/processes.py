"""The processes of the fleet, in any language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.features.commands.admin import SIGNALS, why_not_asked
from goworkers_py.features.commands.call import BUILT_IN, QUIET, RESUME, STOP
from goworkers_py.web.http.params import COUNT, Param
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, Data, View
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
        "commands": _commands(found),
        "obeys_none": "" if found.commands else why_not_asked(found, STOP),
        "own_commands": [name for name in found.commands if name not in BUILT_IN],
    }


def _commands(process: Process) -> Sequence[str]:
    """The commands that a page can give to this process."""
    if process.commands:
        # Only the program of which it is a part can end its work.
        return [name for name in process.commands if not (process.embedded and name in (QUIET, RESUME, STOP))]
    return [] if process.standby else [name for name in SIGNALS if not why_not_asked(process, name)]


VIEWS = [
    View("/processes", "Processes", "processes.html", listed,
         (COLUMNS.param, Param("limit", f"processes that are shown, {MOST_SHOWN} at most", COUNT, MOST_SHOWN)),
         menu="Processes"),
    View("/process", "Process", "process.html", details, (IDENTITY,), "/processes"),
]  # fmt: skip
ACTIONS: Sequence[Action] = []
