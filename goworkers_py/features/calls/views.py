"""Commands to one process: it obeys, and answers. A process of another program is only asked. And the reports that
programs give by `workers.report`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import simplejson

from goworkers_py.brokers.contracts.fleet import Process
from goworkers_py.features.calls import call as names
from goworkers_py.features.calls.admin import SIGNALS, why_not_asked
from goworkers_py.features.calls.call import Answer, Target
from goworkers_py.features.calls.contract import Calls
from goworkers_py.web.http.errors import Refused, bad_request
from goworkers_py.web.http.params import ARRAY, COUNT, WHOLE, Param
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.table import Action, ActionDone, Data, FeaturePages, ProcessPart, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.processes import IDENTITY

MOST = 500  # reports
WAIT_S = 2.0
LEVELS = ("debug", "info", "warning", "error", "configured")
QUEUE = Param("queue", "name of the queue", needed=True)


def _give(visit: Visit, name: str, *arguments: Any) -> ActionDone:
    answer = _answer(visit, _process(visit), name, arguments)
    if name not in names.BUILT_IN:
        answer = _masked(answer, visit.hiding)
    value = answer.value if isinstance(answer.value, str) else simplejson.dumps(answer.value, default=str)
    said = f"{name}: {value}" if answer.ok else f"{name}: not done: {answer.error}"
    noted = f"{answer.identity}: {name}" + ("" if answer.ok else ": not done")  # an answer may hold anything
    return ActionDone(f"{answer.identity}: {said}", int(answer.ok), result={"answers": [answer.as_dict()]}, noted=noted)


def _masked(answer: Answer, hiding: Hiding) -> Answer:
    """Of a command of the user's program, which may answer anything."""
    value = hiding.text(answer.value) if isinstance(answer.value, str) else hiding.value(answer.value)
    return replace(answer, value=value, error=hiding.text(answer.error))


def _answer(visit: Visit, process: Process, name: str, arguments: Sequence[Any]) -> Answer:
    if not process.commands:
        return _asked_by_signal(visit, process, name)
    target = Target([process.identity])
    done = visit.inspector.call(name, *arguments, target=target, timeout_s=WAIT_S, by=visit.grant.who)
    # A process that was given the call and ended meanwhile is in neither list.
    silent = Answer(process.identity, error=f"no answer within {WAIT_S:g} s")
    return next(iter(done.answers), silent)


def _asked_by_signal(visit: Visit, process: Process, name: str) -> Answer:
    if why := "it stands by" if process.standby else why_not_asked(process, name):
        return Answer(process.identity, error=why)
    visit.inspector.ask([process], SIGNALS[name])
    return Answer(process.identity, "asked; it obeys after its next beat, and does not answer")


def _process(visit: Visit) -> Process:
    identity = visit.args["identity"]
    found = next((process for process in visit.inspector.processes() if process.identity == identity), None)
    if found is None:
        raise Refused(404, f"there is no live process {identity}")
    return found


def _quiet(visit: Visit) -> ActionDone:
    """Has a process fetch no new jobs, until `resume`."""
    return _give(visit, names.QUIET)


def _resume(visit: Visit) -> ActionDone:
    """Has a quiet process fetch jobs again."""
    return _give(visit, names.RESUME)


def _stop(visit: Visit) -> ActionDone:
    """Has a process stop, as TERM does: jobs that do not end in time go back into their queues."""
    return _give(visit, names.STOP)


def _reload(visit: Visit) -> ActionDone:
    """Has a process of `processes` of 2 or more replaced by a new one with new code. It retires when that is ready."""
    return _give(visit, names.RELOAD)


def _dump(visit: Visit) -> ActionDone:
    """The stack of every thread of a process, and the job that it runs. A process of another program writes it into its
    log."""
    done = _give(visit, names.DUMP)
    answers = done.result["answers"]
    stacks = [
        (answer["identity"], answer["ok"], _lines(answer["value"]) if answer["ok"] else answer["error"])
        for answer in answers
    ]
    said = f"{names.DUMP} of {visit.args['identity']}"
    return replace(done, said=said, page=("process_answers.html", {"answers": stacks, "heading": "Stacks"}))


def _lines(value: Any) -> str:
    return value if isinstance(value, str) else simplejson.dumps(value, indent=2, default=str)


def _log_level(visit: Visit) -> ActionDone:
    """Sets the log level of a process; `configured` sets it back."""
    return _give(visit, names.LOG_LEVEL, visit.args["level"])


def _concurrency(visit: Visit) -> ActionDone:
    """Gives each pool of a process, or one of them, so many threads until the process restarts."""
    if visit.args["threads"] < 1:
        raise bad_request("threads: must be at least 1")
    return _give(visit, names.CONCURRENCY, visit.args["threads"], visit.args["pool"] or "")


def _pause_queue(visit: Visit) -> ActionDone:
    """Has this process begin no job of a queue. The other processes go on."""
    return _give(visit, names.PAUSE_QUEUE, visit.args["queue"])


def _resume_queue(visit: Visit) -> ActionDone:
    """Ends `pause-queue`."""
    return _give(visit, names.RESUME_QUEUE, visit.args["queue"])


def _call(visit: Visit) -> ActionDone:
    """Gives a process a command of your own program, see `@workers.command`."""
    name = visit.args["name"]
    if name in names.BUILT_IN:
        raise bad_request(f"name: {name} has an action of its own, /process/{name}")
    return _give(visit, name, *visit.args["args"])


def _ask_quiet(visit: Visit) -> str:
    """A process that is asked by a signal cannot be asked to resume."""
    process = _process(visit)
    asks = not process.commands and not why_not_asked(process, names.QUIET)
    return f"Quiet {process.identity}? Only a restart has it fetch jobs again." if asks else ""


def _ask_stop(visit: Visit) -> str:
    return f"Stop process {_process(visit).identity}?"


def _ask_reload(visit: Visit) -> str:
    return f"Let a new process with new code replace {_process(visit).identity}?"


def _action(name: str, run: Callable[[Visit], ActionDone], fields: Sequence[Param] = (),
            question: Callable[[Visit], str] | None = None) -> Action:  # fmt: skip
    return Action(f"/process/{name}", run, (IDENTITY, *fields), question)


def _reports(visit: Visit) -> Data:
    """The last reports, the newest first. With `after`, the next ones behind that position, the oldest first: so a
    program follows them."""
    if not visit.inspector.has(Calls):
        return {"reports": [], "position": "", "offered": False}
    name, after = visit.args["name"] or "", visit.args["after"] or ""
    found = visit.inspector.reports(name, after, min(visit.args["limit"], MOST))
    rows = [report.as_dict() | {"body": visit.hiding.value(dict(report.body))} for report in found]
    return {
        "reports": rows if after else rows[::-1],
        "position": found[-1].position if found else after,
        "offered": True,
    }


def _facts(process: Process) -> Data:
    """For the page of a process."""
    return {
        "commands": _commands(process),
        "obeys_none": "" if process.commands else why_not_asked(process, names.STOP),
        "own_commands": [name for name in process.commands if name not in names.BUILT_IN],
    }


def _commands(process: Process) -> Sequence[str]:
    """The commands that a page can give to this process."""
    if process.commands:
        # Only the program of which it is a part can end its work.
        of_program = (names.QUIET, names.RESUME, names.STOP)
        return [name for name in process.commands if not (process.embedded and name in of_program)]
    return [] if process.standby else [name for name in SIGNALS if not why_not_asked(process, name)]


_VIEWS = [
    View(
        "/reports", "Reports", "reports.html", _reports,
        (
            Param("name", "reports of this name"),
            Param("after", "`position` of a former answer"),
            Param("limit", f"reports of a page, {MOST} at most", COUNT, 50),
        ),
        menu="Reports",
    ),
]  # fmt: skip
_ACTIONS = [
    _action(names.QUIET, _quiet, question=_ask_quiet),
    _action(names.RESUME, _resume),
    _action(names.STOP, _stop, question=_ask_stop),
    _action(names.RELOAD, _reload, question=_ask_reload),
    _action(names.DUMP, _dump),
    _action(names.LOG_LEVEL, _log_level, [Param("level", "the level", needed=True, choices=LEVELS)]),
    _action(
        names.CONCURRENCY, _concurrency,
        [
            Param("threads", "how many threads", WHOLE, needed=True),
            Param("pool", "this pool, or this queue with threads of its own; all if left out"),
        ],
    ),
    _action(names.PAUSE_QUEUE, _pause_queue, [QUEUE]),
    _action(names.RESUME_QUEUE, _resume_queue, [QUEUE]),
    _action(
        "call", _call,
        [Param("name", "the command", needed=True), Param("args", "its arguments, a JSON array", ARRAY, default=())],
    ),
]  # fmt: skip
PAGES = FeaturePages(
    _VIEWS,
    _ACTIONS,
    of_processes=ProcessPart(_facts, "process_tools.html", "process_obeys.html", "process_commands.html"),
)
