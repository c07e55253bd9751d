"""The queues: size, latency, growth, who works them; pause, resume, clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from goworkers_py.admin import places
from goworkers_py.admin.filter import counted
from goworkers_py.brokers.contracts.admin import Glance
from goworkers_py.brokers.contracts.fleet import Process, QueueStats
from goworkers_py.core.levels import base_of
from goworkers_py.core.values import dataclass
from goworkers_py.web.http.params import COUNT, Param
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, ActionDone, Data, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.rows import begin_reading, few, held, row_of
from goworkers_py.web.views.shared import fleet_history, fleet_processes, fleet_stats

NAME = Param("name", "name of the queue", needed=True)


@dataclass(frozen=True, slots=True)
class QueueRow:
    name: str
    size: int
    latency_s: float
    paused: bool
    processes: int  # that fetch from it
    threads: int  # that may work it
    busy: int  # jobs of it that run
    growth_per_min: float | None = None  # while somebody has looked
    sizes: Sequence[int] = ()


def state_of(row: QueueRow) -> str:
    """A word where somebody may have to do something."""
    return "paused" if row.paused else "problem" if row.size and not row.processes else ""


COLUMNS = Columns(
    "name", "size", "growth_per_min", "busy", "threads", "processes", state=state_of,
    latency_s=lambda row: row.latency_s if row.size else None,
)  # fmt: skip


def rows(stats: Sequence[QueueStats], processes: Sequence[Process], busy: Mapping[str, int]) -> list[QueueRow]:
    workers: dict[str, list[int]] = {}
    for process in processes:
        threads = _threads(process)
        for queue in process.queues:
            workers.setdefault(queue, []).append(threads.get(queue) or threads.get(base_of(queue), 0))
    return [
        QueueRow(queue.name, queue.size, queue.latency_s, queue.paused, len(workers.get(queue.name, ())),
                 sum(workers.get(queue.name, ())), busy.get(queue.name, 0))
        for queue in stats
    ]  # fmt: skip


def _threads(process: Process) -> Mapping[str, int]:
    """Counts the threads that may work each queue. A process of another program has one pool for all its queues."""
    if not process.pools:
        return dict.fromkeys(process.queues, process.concurrency)
    found: dict[str, int] = {}
    for pool in process.pools:
        for queue in pool.queues:
            found[queue] = found.get(queue, 0) + pool.threads
    return found


def busy_by_queue(visit: Visit) -> dict[str, int]:
    found: dict[str, int] = {}
    for run in visit.snapshot("running", 2, visit.inspector.running):
        found[run.queue] = found.get(run.queue, 0) + 1
    return found


def listed(visit: Visit) -> Data:
    """All queues: how many jobs wait, for how long the next one has waited, whether the queue is paused, and who works
    it."""
    found = rows(fleet_stats(visit).queues, fleet_processes(visit), busy_by_queue(visit))
    return {"queues": COLUMNS.sorted([_with_growth(visit, row) for row in found], visit.args["sort"])}


def _with_growth(visit: Visit, row: QueueRow) -> QueueRow:
    growth, sizes = visit.trends.growth(visit.partition, row.name)
    return replace(row, growth_per_min=growth, sizes=sizes[-60:])


def details(visit: Visit) -> Data:
    """One queue, with the jobs that run next."""
    name = visit.args["name"]
    found = visit.inspector.queue(name) or QueueStats(name, 0, 0.0)
    processes = [process for process in fleet_processes(visit) if name in process.queues]
    begin_reading(visit)
    page = visit.inspector.first(places.waiting_in(name), min(visit.args["limit"], 500), Glance())
    jobs = held(visit, few(page))
    days = fleet_history(visit)[:14]
    return {
        "queue": _with_growth(visit, rows([found], processes, busy_by_queue(visit))[0]),
        "processes": processes,
        "jobs": [row_of(job, visit.hiding) for job in jobs],
        "days": [{"date": day.date, **counts._asdict()} for day in days if (counts := day.queues.get(name))],
    }


def _pause(visit: Visit) -> ActionDone:
    """Pauses a queue: no process begins a job of it until `resume`. Running jobs go on."""
    name = visit.args["name"]
    changed = visit.inspector.pause(name)
    return ActionDone(f"queue {name} is paused" if changed else f"queue {name} was paused already", int(changed))


def _resume(visit: Visit) -> ActionDone:
    """Ends the pause of a queue."""
    name = visit.args["name"]
    changed = visit.inspector.resume(name)
    return ActionDone(f"queue {name} goes on" if changed else f"queue {name} was not paused", int(changed))


def _clear(visit: Visit) -> ActionDone:
    """Deletes all jobs that wait in a queue, and the queue itself."""
    name = visit.args["name"]
    gone = visit.inspector.clear(places.waiting_in(name))
    return ActionDone(f"{counted(gone)} of queue {name} deleted", gone, to=visit.link("/queues"))


def _ask_clear(visit: Visit) -> str:
    name = visit.args["name"]
    return f"Delete all of {counted(visit.inspector.count(places.waiting_in(name)))} in queue {name} for good?"


VIEWS = [
    View("/queues", "Queues", "queues.html", listed, (COLUMNS.param,), menu="Queues"),
    View("/queue", "Queue", "queue.html", details,
         (NAME, Param("limit", "jobs that are shown, 500 at most", COUNT, 25)), "/queues"),
]  # fmt: skip
ACTIONS = [
    Action("/queue/pause", _pause, (NAME,)),
    Action("/queue/resume", _resume, (NAME,)),
    Action("/queue/clear", _clear, (NAME,), _ask_clear),
]
