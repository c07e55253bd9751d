"""The pages of limits: what they allow, who has the places, who waits; a limit is set by hand there."""

from __future__ import annotations

import itertools

from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import ANY_RATE, MOST, LimitEntry, Rate, SlotEntry, rate_of, slot_of_line
from goworkers_py.features.limits.payload import slots_of
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.params import Param, whole_from
from goworkers_py.web.site.snapshots import SOON_S
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, ActionDone, Data, FeaturePages, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.offered import MOST as MOST_ENTRIES
from goworkers_py.web.views.offered import entries
from goworkers_py.web.views.shared import fleet_stats
from goworkers_py.wire.message import Message

NAME = Param("name", "name of the limit", needed=True)
MOST_SLOTS = 100
MOST_OF_A_JOB = 60  # limits on the page of a job

LIMITS = Columns("name", "concurrent", "burst", "waiting", "set_by_hand", rate=lambda row: row["rate_per_s"])


def limits(visit: Visit) -> Data:
    """The limits that programs have declared: what they allow, how many jobs have places and how many wait."""
    found = entries(visit, "limits", Limits, visit.inspector.limits)
    waiting = fleet_stats(visit).limits if found else {}
    rows = [_as_data(entry) | {"waiting": waiting.get(entry.name, 0)} for entry in found]
    return {
        "limits": LIMITS.sorted(rows, visit.args["sort"]),
        "most": MOST_ENTRIES,
        "offered": visit.inspector.has(Limits),
    }


def limit(visit: Visit) -> Data:
    """One limit: who has its places and how many jobs wait, by key."""
    shown = _entry(visit)
    name = shown.name

    def some() -> list[SlotEntry]:
        return list(itertools.islice(visit.inspector.slots(name), MOST_SLOTS))

    slots = visit.panel(f"slots of {name}", SOON_S, some)
    return {
        "limit": _as_data(shown),
        "counted": slots,
        "slots": [
            {"key": entry.slot.key, "waiting": entry.waiting, "holders": list(entry.holders)}
            for entry in slots.value or ()
        ],
        "most": MOST_SLOTS,
    }


def _entry(visit: Visit) -> LimitEntry:
    name = visit.args["name"]
    found = next((entry for entry in visit.inspector.limits() if entry.name == name), None)
    if found is None:
        raise Refused(404, f"no process has declared a limit {name}")
    return found


def _as_data(entry: LimitEntry) -> dict[str, object]:
    rate = entry.rate
    return {
        "name": entry.name, "concurrent": entry.concurrent, "rate": str(rate) if rate else None,
        "rate_per_s": rate.amount / rate.per_s if rate else None, "burst": rate.burst if rate else None,
        "set_by_hand": entry.set_concurrent is not None or entry.set_rate is not None,
    }  # fmt: skip


def _set(visit: Visit) -> ActionDone:
    """Overrides a limit in the whole fleet, until `unset`: a number or `any`."""
    entry, args = _entry(visit), visit.args
    concurrent, rate = _concurrent(args["concurrent"]), _rate(entry, args["rate"], args["burst"])
    if concurrent is None and rate is None:
        raise ArgumentError("give concurrent, rate or burst")
    done = visit.inspector.set_limit(entry.name, concurrent, rate)
    return ActionDone(f"limit {entry.name} " + ("was set by hand" if done else "is not declared any more"), int(done))


def _concurrent(text: str | None) -> int | None:
    if not text:
        return None
    if text == "any":
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= MOST):
        raise ArgumentError(f"concurrent must be a number, 0 to let no job begin, or any; is {text!r}")
    return int(text)


def _rate(entry: LimitEntry, text: str | None, burst: int | None) -> Rate | None:
    if text == "any":
        if burst is not None:
            raise ArgumentError("burst: a rate of any has none")
        return ANY_RATE
    rate = _rate_of(text, entry.rate.burst if entry.rate else 1) if text else entry.rate
    if burst is None:
        return rate if text else None
    if rate is None:
        raise ArgumentError("burst: the limit has no rate; give one, such as 100/minute")
    return rate._replace(burst=burst)


def _rate_of(text: str, burst: int) -> Rate:
    try:
        return rate_of(text, burst)
    except ValueError as error:
        raise ArgumentError(f"rate: {error}") from None


def _unset(visit: Visit) -> ActionDone:
    """Ends `set`: the limit is as in the code again."""
    done = visit.inspector.unset_limit(visit.args["name"])
    return ActionDone(f"limit {visit.args['name']} " + ("is as in the code" if done else "had nothing set"), int(done))


def _forget(visit: Visit) -> ActionDone:
    """Removes a limit that no code declares any more. It is refused while jobs wait for it or have places in it."""
    done = visit.inspector.forget_limit(visit.args["name"])
    said = f"limit {visit.args['name']} " + ("is forgotten" if done else "is not there")
    return ActionDone(said, int(done), to=visit.link("/limits"))


def job_facts(message: Message | None, line: str) -> Data:
    slot = slot_of_line(line)
    limits = [] if message is None else [tie.slot.limit for tie in slots_of(message.fields)]
    return {"limits": limits[:MOST_OF_A_JOB], "waits_for": slot and slot.limit}


PAGES = FeaturePages(
    views=[
        View("/limits", "Limits", "limits.html", limits, (LIMITS.param,), menu="Limits"),
        View("/limit", "Limit", "limit.html", limit, (NAME,), "/limits"),
    ],
    actions=[
        Action(
            "/limit/set",
            _set,
            (
                NAME,
                Param("concurrent", "jobs that run at once: a number, 0 lets no job begin, or any"),
                Param("rate", "jobs that begin in a time, such as 100/minute, or any"),
                Param("burst", "jobs of the rate that begin at once after a pause", whole_from(1, MOST)),
            ),
        ),
        Action("/limit/unset", _unset, (NAME,)),
        Action("/limit/forget", _forget, (NAME,), lambda visit: f"Forget the limit {visit.args['name']}?"),
    ],
    job_facts=job_facts,
    job_rows="job_limits.html",
)
