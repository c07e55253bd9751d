"""Periodic jobs: when they fire, what became of the last firings; pause, run now, other rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict

import simplejson

from goworkers_py.core.errors import BrokerError, ConfigError
from goworkers_py.features.periodic.admin import PeriodicJobStatus, status_of_foreign
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.http.params import JSON, Param, whole_from
from goworkers_py.web.site.hiding import MASK
from goworkers_py.web.site.showing import cut
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, ActionDone, Data, FeaturePages, Hit, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.find import LONGEST_NAME, like
from goworkers_py.web.views.offered import MOST, entries

NAME = Param("name", "name of the schedule, or SOURCE:NAME where two applications have one", needed=True)
SLOTS, FIRINGS = 5, 50
FOUND_AGE_S = 30.0

COLUMNS = Columns(
    "name", "rule", "next_at", "job_class", "queue", "state", last_at=lambda job: job.last.at if job.last else None
)


def listed(visit: Visit) -> Data:
    """All schedules: their rule, the next and the last firing, whether a process has them in its code. Those of Ruby's
    gems are among them."""
    inspector = visit.inspector
    found = entries(visit, "periodic jobs", Periodic, inspector.periodic_jobs)
    foreign = [status_of_foreign(schedule) for schedule in inspector.foreign_schedules()][:MOST]
    return {
        "jobs": [_shown(visit, job) for job in COLUMNS.sorted([*found, *foreign], visit.args["sort"])],
        "offered": inspector.has(Periodic),
    }


def details(visit: Visit) -> Data:
    """One schedule: its rule in code and by hand, its next slots and its last firings."""
    inspector, name = visit.inspector, visit.args["name"]
    return {
        "job": _shown(visit, inspector.periodic_job(name)),
        "slots": inspector.periodic_slots(name, SLOTS),
        "history": inspector.periodic_history(name)[:FIRINGS],
    }


def _shown(visit: Visit, job: PeriodicJobStatus) -> dict[str, object]:
    fields = asdict(job) | {"last": job.last, "full_name": f"{job.source}:{job.name}"}
    fields["rule"] = visit.hiding.text(job.rule)  # that of a gem may be the whole schedule, as JSON
    fields["args"], fields["args_of_code"] = visit.hiding.value(job.args), visit.hiding.value(job.args_of_code)
    return fields


def _pause(visit: Visit) -> ActionDone:
    """Stops a schedule in all processes, until `resume`."""
    return _answer(visit, visit.inspector.pause_periodic(visit.args["name"]), "is paused", "was paused already")


def _resume(visit: Visit) -> ActionDone:
    """Ends a pause. The slots of its time are not made up for."""
    return _answer(visit, visit.inspector.resume_periodic(visit.args["name"]), "goes on", "was not paused")


def _run(visit: Visit) -> ActionDone:
    """Pushes a job of the schedule now, also of a paused one; a process that has it in its code does so in seconds."""
    asked = visit.inspector.run_periodic(visit.args["name"])
    return _answer(visit, asked, "was asked for a job", "is in the code of no live process")


def _set(visit: Visit) -> ActionDone:
    """Changes when a schedule fires, or the arguments of its jobs, in all processes until `unset`."""
    args = visit.args
    if not (args["cron"] or args["every"] or args["timezone"] or args["args"] is not None):
        raise bad_request("give cron, every, timezone or args")
    if args["args"] is not None and not isinstance(args["args"], list):
        raise bad_request("args: must be a JSON array")
    _check_unmasked(visit)
    visit.inspector.set_periodic(
        args["name"], cron=args["cron"] or "", every=args["every"] or 0, timezone=args["timezone"] or "",
        args=args["args"],
    )  # fmt: skip
    return _answer(visit, True, "was set by hand", "")


def _check_unmasked(visit: Visit) -> None:
    """Somebody who copies the arguments from the page would store the mask in place of a secret."""
    given = visit.args["args"]
    if given is None or MASK not in simplejson.dumps(given):
        return
    job = visit.inspector.periodic_job(visit.args["name"])
    known = [job.args, job.args_of_code]
    if visit.hiding.value(known) != known:
        raise bad_request(
            f'args: a hidden value is shown as "{MASK}", and would be pushed as this text; write the value'
        )


def _unset(visit: Visit) -> ActionDone:
    """Ends `set`: the schedule is as in the code again."""
    return _answer(visit, visit.inspector.unset_periodic(visit.args["name"]), "is as in the code", "had nothing set")


def _forget(visit: Visit) -> ActionDone:
    """Deletes a schedule that no code has any more, with its history."""
    name = visit.args["name"]
    gone = visit.inspector.forget_periodic(name)
    said = f"periodic job {name} is forgotten" if gone else f"periodic job {name} was forgotten already"
    return ActionDone(said, int(gone), to=visit.link("/periodic"))


def _answer(visit: Visit, done: bool, what: str, otherwise: str) -> ActionDone:
    return ActionDone(f"periodic job {visit.args['name']} {what if done else otherwise}", int(done))


def _finds(visit: Visit, text: str) -> Iterator[Hit]:
    with suppress(ConfigError, BrokerError):
        jobs = visit.snapshot("periodic jobs", FOUND_AGE_S, visit.inspector.periodic_jobs)
        for name in like(text, [f"{job.source}:{job.name}" for job in jobs]):
            yield Hit(cut(name, LONGEST_NAME), "periodic job", visit.link("/periodic/one", name=name))


PAGES = FeaturePages(
    views=[
        View("/periodic", "Periodic jobs", "periodic.html", listed, (COLUMNS.param,), menu="Periodic"),
        View("/periodic/one", "Periodic job", "periodic_one.html", details, (NAME,), "/periodic"),
    ],
    actions=[
        Action("/periodic/pause", _pause, (NAME,)),
        Action("/periodic/resume", _resume, (NAME,)),
        Action("/periodic/run", _run, (NAME,)),
        Action(
            "/periodic/set",
            _set,
            (
                NAME,
                Param("cron", "cron expression"),
                Param("every", "instead of `cron`: seconds", whole_from(1)),
                Param("timezone", "time zone of `cron`"),
                Param("args", "arguments, a JSON array", JSON),
            ),
        ),
        Action("/periodic/unset", _unset, (NAME,)),
        Action(
            "/periodic/forget",
            _forget,
            (NAME,),
            lambda visit: f"Delete the schedule {visit.args['name']} with its history?",
        ),
    ],
    finds=_finds,
)
