"""Retries, kills or deletes the wanted jobs of one place, a page at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from goworkers_py.admin.filter import Wanted
from goworkers_py.admin.job_pages import Span
from goworkers_py.brokers.contracts.admin import Change, Changed, PlacedJobs
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.wire.stored_job import StoredJob


class BulkChange:
    def __init__(self, wanted: Wanted, how: Callable[[StoredJob], Change], most: int | None, dry_run: bool) -> None:
        """`how` makes the change of one job; it raises UnreadablePayload for a job that must stay unchanged. `most`
        limits how many jobs are changed: a job that fails at once and returns to this place would be changed forever.
        """
        self._wanted = wanted
        self._how = how
        self._most = most
        self._dry_run = dry_run
        # Of the pages that `_decide` has seen since the last step.
        self._chosen = 0
        self._problems: list[str] = []
        self._last: StoredJob | None = None

    def steps(self, jobs: PlacedJobs, span: Span) -> Iterator[tuple[int, Changed]]:
        for looked_at, changed in jobs.change(self._decide, span.start(jobs)):
            changed = Changed(self._chosen) if self._dry_run else changed
            changed.problems += self._problems
            self._chosen, self._problems = 0, []
            yield looked_at, changed
            if self._most is not None:
                # Unchanged jobs do not count: among jobs of the same time, the next page may hold them again.
                self._most -= changed.done
                if self._most <= 0:
                    return
            if self._last is not None and span.is_behind(self._last):
                return

    def _decide(self, page: Sequence[StoredJob]) -> list[Change]:
        self._last = page[-1] if page else None
        chosen = list(itertools.islice(filter(self._wanted.fits, page), self._most))
        self._chosen += len(chosen)
        return [] if self._dry_run else list(self._changes(chosen))

    def _changes(self, chosen: Sequence[StoredJob]) -> Iterator[Change]:
        for job in chosen:
            try:
                yield self._how(job)
            except UnreadablePayload as error:
                self._problems.append(str(error))
