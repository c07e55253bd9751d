"""Changes selected jobs, or all that fit a filter, some at each request.

A million jobs take longer than a request may. So each request changes jobs for about a second, and answers where to go
on; the page asks again by itself. Whoever closes the page ends the work: each job was changed or not, and none is
between two places.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from goworkers_py.admin.filter import Filter, Refined, Wanted, counted
from goworkers_py.admin.jobs import Steps
from goworkers_py.admin.places import RETRIES, TIMED
from goworkers_py.brokers.contracts.admin import Changed, Place
from goworkers_py.core.job_state import JobState
from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.http.params import TEXTS, TIME, WHOLE, YES_NO, Param
from goworkers_py.web.site.table import Done, GoOn
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.filters import FILTER, PLACED, QUEUE, filter_of, place_of
from goworkers_py.web.views.rows import failed_at, key_of, time_and_jid
from goworkers_py.wire.stored_job import StoredJob

SLICE_S = 0.8
MOST_SELECTED = 1_000

Verb = Callable[[Place, Wanted, int], Steps]

FIELDS: Sequence[Param] = (
    Param("state", "the state of the jobs", needed=True, choices=PLACED),
    QUEUE,
    Param("job", "keys of selected jobs, as a list gives them", TEXTS),
    Param("all", "all jobs that fit the filter, and without a filter all of the state", YES_NO, False),
    *FILTER,
    # Where the next request goes on.
    Param("started", "when the first request was made", TIME),
    Param("looked_at", "jobs that former requests have looked at", WHOLE, 0),
    Param("changed", "jobs that former requests have changed", WHOLE, 0),
    Param("total", "jobs of the state when the first request was made", WHOLE),
)


class _Seen(Refined):
    """Knows the time of the last job that was looked at."""

    def __init__(self, wanted: Filter) -> None:
        super().__init__(wanted, lambda job: True)
        self.last_at: float | None = None

    def fits(self, job: StoredJob) -> bool:
        self.last_at = job.at
        return super().fits(job)


@dataclass(frozen=True, slots=True)
class Bulk:
    """One request of a change. `verb` makes the steps of the inspector; `done` is the word for what it does."""

    visit: Visit
    verb: Verb
    done: str

    def run(self) -> Done:
        args = self.visit.args
        if args["job"]:
            return self._selected(args["job"])
        if not args["all"]:
            raise bad_request("select jobs, or give all=yes for all that fit the filter")
        return self._all()

    @property
    def _place(self) -> Place:
        return place_of(self.visit.args["state"], self.visit.args["queue"] or "")

    def _selected(self, keys: Sequence[str]) -> Done:
        if len(keys) > MOST_SELECTED:
            raise bad_request(f"at most {MOST_SELECTED:,} jobs can be selected at once; give all=yes with a filter")
        try:
            named = [time_and_jid(key) for key in keys]
        except ValueError:
            raise bad_request("job: this is not the key of a job in a list") from None
        times = [at for at, _ in named if at is not None]
        wanted = Filter(
            jids=[jid for _, jid in named],
            since=min(times) if times and self._place in TIMED else None,
            until=max(times) if times and self._place in TIMED else None,
        )
        chosen, left = set(keys), len(set(keys))
        total = Changed()
        for _, changed in self.verb(self._place, Refined(wanted, lambda job: key_of(job) in chosen), 0):
            total.add(changed)
            left -= changed.done
            if left <= 0:
                break
        gone = len(chosen) - total.done - len(total.problems)
        said = f"{counted(total.done)} {self.done}" + (f"; {gone} had left before" if gone > 0 else "")
        return Done(said, total.done, problems=total.problems)

    def _all(self) -> Done:
        args, place = self.visit.args, self._place
        started, changed = args["started"] or time.time(), args["changed"]
        total = args["total"] if args["total"] is not None else self.visit.inspector.count(place)
        seen = _Seen(filter_of(self.visit))
        wanted = Refined(seen, _failed_before(started)) if place == RETRIES else seen
        result, looked_at, until = Changed(), args["looked_at"], time.monotonic() + SLICE_S
        ended = True
        # A queue has no times to go on from: jobs that were looked at and stayed are passed over.
        start = 0 if place in TIMED else max(0, looked_at - changed)
        for read, step in self.verb(place, wanted, start):
            result.add(step)
            looked_at += read
            if looked_at >= total and self._at_end(place, looked_at - changed - result.done):
                break
            if time.monotonic() >= until:
                ended = False
                break
        changed += result.done
        problems = result.problems
        if ended:
            return Done(f"{counted(changed)} {self.done}", changed, problems=problems)
        fields = self._next(place, seen, started)
        fields |= {"looked_at": looked_at, "changed": changed, "total": total}
        said = f"{counted(changed)} {self.done} so far"
        return Done(said, result.done, problems=problems, go_on=GoOn(fields, looked_at, total))

    def _at_end(self, place: Place, stayed: int) -> bool:
        """Whether what is left has come since the first request. The newest jobs of a queue are read first, so those
        that were pushed meanwhile have moved others behind the place where this request began: `stayed`."""
        return place in TIMED or stayed >= self.visit.inspector.count(place)

    def _next(self, place: Place, seen: _Seen, started: float) -> dict[str, object]:
        args = self.visit.args
        fields: dict[str, object] = {"state": args["state"], "queue": args["queue"] or "", "all": "yes", "_sure": "yes"}
        fields |= {name: args[name] for name in (param.name for param in FILTER) if args[name] not in (None, "", [])}
        if place in TIMED and seen.last_at is not None:
            fields["since"] = repr(seen.last_at)
        if "at" in args:
            fields["at"] = repr(args["at"])
        return fields | {"started": repr(started)}


def _failed_before(started: float) -> Callable[[StoredJob], bool]:
    """A job that is retried, fails at once and comes back is not retried again."""

    def before(job: StoredJob) -> bool:
        failed = failed_at(job.message)
        return failed is None or failed <= started

    return before


def question(verb: str) -> Callable[[Visit], str]:
    """Asks before all jobs of a filter are changed, or any are deleted."""

    def ask(visit: Visit) -> str:
        args = visit.args
        state = args["state"] if args["state"] != JobState.WAITING.value else f"queue {args['queue']}"
        if args["job"]:
            return f"Delete {counted(len(set(args['job'])))} of {state} for good?" if verb == "Delete" else ""
        wanted = filter_of(visit)
        size = visit.inspector.count(place_of(args["state"], args["queue"] or ""))
        if wanted.empty:
            return f"{verb} all of {counted(size)} in {state}?"
        return f"{verb} all jobs {wanted} among {counted(size)} in {state}?"

    return ask
