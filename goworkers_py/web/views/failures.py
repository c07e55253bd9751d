"""The failures: jobs that wait for a retry or are dead, by class and error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from goworkers_py.admin.summary import HOURS, LONGEST_TEXT, NAMELESS, OTHERS, UNREADABLE, PlaceKind, Sample
from goworkers_py.core.values import dataclass
from goworkers_py.web.http.params import Param
from goworkers_py.web.site.snapshots import PageSnapshot
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, Data, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.shared import SAMPLED, sampled

MOST_SHOWN = 100
# The names of the snapshots, which the first page uses too.


@dataclass(slots=True)
class Failure:
    """Jobs of one class that failed with one class of error."""

    job_class: str
    error_class: str
    error_message: str = ""  # of the newest failure
    retry: int = 0
    dead: int = 0
    oldest: float | None = None  # the jobs' last failures, epoch seconds
    newest: float | None = None
    by_hour: list[int] = field(default_factory=lambda: [0] * HOURS)  # of the last day, among those looked at

    @property
    def count(self) -> int:
        return self.retry + self.dead

    @property
    def selectable(self) -> bool:
        """Whether a filter can name just these jobs."""
        named = self.job_class not in (OTHERS, UNREADABLE, NAMELESS) and len(self.job_class) < LONGEST_TEXT
        return named and 0 < len(self.error_class) < LONGEST_TEXT

    def add(self, kind: PlaceKind, state: str) -> None:
        setattr(self, state, getattr(self, state) + kind.count)
        if kind.newest is not None and (self.newest is None or kind.newest >= self.newest):
            self.newest, self.error_message = kind.newest, kind.error_message
        if kind.oldest is not None:
            self.oldest = kind.oldest if self.oldest is None else min(self.oldest, kind.oldest)
        self.by_hour = [own + other for own, other in zip(self.by_hour, kind.by_hour, strict=True)]


COLUMNS = Columns(
    "job_class", "error_class", "retry", "dead", "count", "oldest", "newest",
    last_day=lambda failure: sum(failure.by_hour),
)  # fmt: skip


def listed(visit: Visit) -> Data:
    """Jobs that wait for a retry or are dead, counted by class and error, the most frequent first. Of more than some
    thousand jobs the counts are estimated from a sample: `looked_at` is less than `total` then."""
    wanted, state = (visit.args["class"] or "").lower(), visit.args["state"]
    samples = {name: sampled(visit, name) for name in SAMPLED}
    shown = {name: snapshot for name, snapshot in samples.items() if state in ("", name)}
    found = [failure for failure in _together(shown) if wanted in failure.job_class.lower()]
    values = [snapshot.value for snapshot in shown.values() if snapshot.value is not None]
    return {
        "state": state,
        "class_text": visit.args["class"] or "",
        "failures": COLUMNS.sorted(found, visit.args["sort"])[:MOST_SHOWN],
        "kinds": len(found),
        "samples": {name: _without_kinds(snapshot) for name, snapshot in samples.items()},
        "looked_at": sum(sample.looked_at for sample in values),
        "total": sum(sample.total for sample in values),
        "estimated": any(sample.looked_at < sample.total for sample in values),
    }


def _together(samples: Mapping[str, PageSnapshot[Sample]]) -> list[Failure]:
    found: dict[tuple[str, str], Failure] = {}
    for state, sample in samples.items():
        for kind in sample.value.kinds if sample.value is not None else ():
            name = kind.job_class, kind.error_class
            found.setdefault(name, Failure(*name)).add(kind, state)
    return sorted(found.values(), key=lambda failure: (-failure.count, failure.job_class, failure.error_class))


def _without_kinds(sample: PageSnapshot[Sample]) -> PageSnapshot[Mapping[str, int]]:
    counts = None if sample.value is None else {"total": sample.value.total, "looked_at": sample.value.looked_at}
    return PageSnapshot(counts, sample.at, sample.error)


VIEWS = [
    View(
        "/failures", "Failures", "failures.html", listed,
        (
            Param("state", "only those of retry, or of dead", default="", choices=(*SAMPLED,)),
            Param("class", "a part of the class"),
            COLUMNS.param,
        ),
        menu="Failures",
    ),
]  # fmt: skip
ACTIONS: Sequence[Action] = []
