"""Changes selected jobs, or all that fit a filter, some at each request.

A million jobs take longer than a request may. So each request changes jobs for about a second, and answers where to go
on; the page asks again by itself. Closing the page ends the work: each job was changed or not, and none is
between two places. The sums that the client sends back are for its own eyes: the audit adds up what each request has
counted here.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from goworkers_py.admin.audit import scope_of
from goworkers_py.admin.filter import Filter, Refined, Wanted, counted
from goworkers_py.admin.jobs import Steps
from goworkers_py.admin.places import DEAD, PARKED, TIMED
from goworkers_py.brokers.contracts.admin import Changed, Place
from goworkers_py.brokers.contracts.span import BEGINNING, Reached
from goworkers_py.core.values import dataclass
from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.http.params import TEXTS, TIME, YES_NO, Param, whole_from
from goworkers_py.web.site.table import ActionDone, GoOn
from goworkers_py.web.site.visit import Trace, Visit
from goworkers_py.web.views.filters import FILTER, PLACED, PLACES, QUEUE, filter_of, place_of, wanted_of
from goworkers_py.web.views.rows import failed_at, has_key, time_and_jid
from goworkers_py.wire.stored_job import StoredJob

SLICE_S = 0.8
MOST_SELECTED = 1_000
MOST_SKEW_S = 60.0  # of the clocks of other machines
LONGEST_LOOK_S = 5.0  # for selected jobs of a queue, which have no times to find them by

Verb = Callable[[Place, Wanted, Reached], Steps]  # the last one: where to go on

STATE = Param("state", "the state of the jobs", needed=True, choices=PLACED)
_OTHERS: Sequence[Param] = (
    QUEUE,
    Param("job", "keys of selected jobs, as a list gives them", TEXTS),
    Param("all", "all jobs that fit the filter, and without a filter all of the state", YES_NO, False),
    *FILTER,
    # Where the next request goes on.
    Param("started", "when the first request was made", TIME),
    Param("looked_at", "jobs that former requests have looked at", whole_from(0), 0),
    Param("changed", "jobs that former requests have changed", whole_from(0), 0),
    Param("total", "jobs of the state when the first request was made", whole_from(0)),
    Param("reached", "how far former requests have come", default=""),
)
FIELDS: Sequence[Param] = (STATE, *_OTHERS)


def fields_for(states: Sequence[str], *more: Param) -> Sequence[Param]:
    """The fields of a change that jobs of these states alone allow."""
    return (replace(STATE, choices=states), *_OTHERS, *more)


def selected(visit: Visit) -> Sequence[tuple[float | None, str]]:
    """The times and the jids of the selected jobs; none where all that fit the filter are meant."""
    keys = visit.args["job"]
    if not keys and not visit.args["all"]:
        raise bad_request("select jobs, or give all=yes for all that fit the filter")
    if len(keys) > MOST_SELECTED:
        raise bad_request(f"at most {MOST_SELECTED:,} jobs can be selected at once; give all=yes with a filter")
    try:
        return [time_and_jid(key) for key in keys]
    except ValueError:
        raise bad_request("job: this is not the key of a job in a list") from None


@dataclass(frozen=True, slots=True)
class Bulk:
    """One request of a change. `verb` makes the steps of the inspector; `done` is the word for what it does."""

    visit: Visit
    verb: Verb
    done: str

    def run(self) -> ActionDone:
        named = selected(self.visit)
        return self._selected(self.visit.args["job"], named) if named else self._all()

    @property
    def _place(self) -> Place:
        return place_of(self.visit.args["state"], self.visit.args["queue"] or "")

    def _selected(self, keys: Sequence[str], named: Sequence[tuple[float | None, str]]) -> ActionDone:
        times = [at for at, _ in named if at is not None]
        wanted = Filter(
            jids=[jid for _, jid in named],
            since=min(times) if times and self._place in TIMED else None,
            until=max(times) if times and self._place in TIMED else None,
        )
        chosen, until = set(keys), time.monotonic() + LONGEST_LOOK_S
        trace = self.visit.trace
        trace.scope = f"{counted(len(chosen))} selected in {self._where}"
        selected = Refined(wanted, lambda job: has_key(job, chosen, self.visit.hiding))
        total, why = Changed(), "had left before"
        for _, changed in self.verb(self._place, selected, BEGINNING):
            total.add(changed)
            trace.count = total.done
            if total.done >= len(chosen):
                break
            if time.monotonic() >= until:
                why = f"not found within {LONGEST_LOOK_S:g} s: give all=yes with a filter"
                break
        gone = len(chosen) - total.done - len(total.problems)
        said = f"{counted(total.done)} {self.done}" + (f"; {gone} {why}" if gone > 0 else "")
        return ActionDone(said, total.done, problems=total.problems)

    def _all(self) -> ActionDone:
        args, place = self.visit.args, self._place
        started = args["started"] or self.visit.inspector.now()
        trace = self._begun(started)
        total = args["total"] if args["total"] is not None else self.visit.inspector.count(place)
        reached = Reached.read(args["reached"]) if args["reached"] else BEGINNING
        result, looked_at, until = Changed(), args["looked_at"], time.monotonic() + SLICE_S
        ended = True
        for read, step in self.verb(place, self._of_before(started), reached):
            result.add(step)
            trace.count = result.done
            reached = step.reached
            looked_at += read
            if args["changed"] + result.done >= total:
                break  # the others have come since
            if time.monotonic() >= until and (place != PARKED or result.done):
                ended = False
                break
        changed = args["changed"] + result.done
        if ended:
            return ActionDone(
                f"{counted(changed)} {self.done}", result.done, problems=result.problems, noted=f"jobs {self.done}"
            )
        fields = self._next(place, reached, started)
        fields |= {"looked_at": looked_at, "changed": changed, "total": total}
        said = f"{counted(changed)} {self.done} so far"
        go_on = GoOn(fields, looked_at, total)
        noted = f"jobs {self.done}, not finished"
        return ActionDone(said, result.done, problems=result.problems, go_on=go_on, noted=noted)

    def _begun(self, started: float) -> Trace:
        """The name of the change is made of what it does, so that no client can hide another change behind it."""
        trace, wanted = self.visit.trace, scope_of(filter_of(self.visit))
        trace.scope = f"all {wanted} in {self._where}" if wanted else f"all of {self._where}"
        named = repr((self.visit.grant.who, self.done, trace.scope, started))
        trace.change = hashlib.blake2b(named.encode(), digest_size=6).hexdigest()
        return trace

    @property
    def _where(self) -> str:
        state = self.visit.args["state"]
        return state if state in PLACES else f"queue {self.visit.args['queue']}"

    def _of_before(self, started: float) -> Wanted:
        """Only what was there at the first request: a job that is retried, fails at once and comes back, or pushes its
        next one, is not met again."""
        wanted = wanted_of(self.visit)
        # A time ahead of ours is no time at which a job has died meanwhile.
        died = (started, time.time() + MOST_SKEW_S) if self._place == DEAD else (math.inf, math.inf)
        return Refined(wanted, lambda job: not _came_since(job, started) and not died[0] < (job.at or 0.0) <= died[1])

    def _next(self, place: Place, reached: Reached, started: float) -> dict[str, object]:
        args = self.visit.args
        fields: dict[str, object] = {"state": args["state"], "queue": args["queue"] or "", "all": "yes", "_sure": "yes"}
        fields |= {name: args[name] for name in (param.name for param in FILTER) if args[name] not in (None, "", [])}
        if "at" in args:
            fields["at"] = repr(args["at"])
        if "to" in args:
            fields["to"] = args["to"]
        # Workers take jobs out of the lines of limits meanwhile, so there each request begins anew.
        return fields | {"started": repr(started), "reached": "" if place == PARKED else str(reached)}


def _came_since(job: StoredJob, started: float) -> bool:
    message = job.message
    since = None if message is None else failed_at(message) or message.created_at
    return since is not None and since > started
