"""Retries, kills or deletes the wanted jobs of one place, a page at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from goworkers_py.admin.filter import Wanted
from goworkers_py.brokers.contracts.admin import Change, Changed, PlacedJobs
from goworkers_py.brokers.contracts.span import Reached, Span
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
        self._pages: list[Sequence[StoredJob]] = []

    def steps(self, jobs: PlacedJobs, span: Span) -> Iterator[tuple[int, Changed]]:
        place = _Progress(span.reached)
        for looked_at, changed in jobs.change(self._decide, span):
            changed = Changed(self._chosen) if self._dry_run else changed
            changed.problems += self._problems
            changed.reached = place.after(self._pages, changed)
            self._chosen, self._problems, self._pages = 0, [], []
            yield looked_at, changed
            if self._most is not None:
                # Unchanged jobs do not count: among jobs of the same time, the next page may hold them again.
                self._most -= changed.done
                if self._most <= 0:
                    return

    def _decide(self, page: Sequence[StoredJob]) -> list[Change]:
        self._pages.append(page)
        chosen = list(itertools.islice(filter(self._wanted.fits, page), self._most))
        self._chosen += len(chosen)
        return [] if self._dry_run else list(self._changes(chosen))

    def _changes(self, chosen: Sequence[StoredJob]) -> Iterator[Change]:
        for job in chosen:
            try:
                yield self._how(job)
            except UnreadablePayload as error:
                self._problems.append(str(error))


class _Progress:
    """Knows where another call would go on: at the time of the last job that was looked at, behind those jobs of this
    time that stayed; in a queue, whose jobs have no time, behind the last one that stayed."""

    def __init__(self, reached: Reached) -> None:
        self._reached = reached
        self._skip = reached.skip  # without those of `_stayed`
        self._behind = reached.behind
        # Jobs of this time that stayed. Hashes, because a place may yield a job twice while others come and go.
        self._stayed: set[int] = set()

    def after(self, pages: Sequence[Sequence[StoredJob]], changed: Changed) -> Reached:
        looked_at = list(itertools.chain.from_iterable(pages))
        gone = {job.payload for job in changed.jobs}
        last = next((job for job in reversed(looked_at) if job.payload not in gone), None)
        if last is not None and last.at is None:
            self._behind = last.jid
        for job in looked_at:
            if job.at is None:
                self._skip += 1
                continue
            if job.at != self._reached.time:
                self._begin(Reached(job.at))
            self._stayed.add(hash(job.payload))
        if self._reached.time is None:
            self._skip -= len(changed.jobs)
        self._stayed.difference_update(hash(job.payload) for job in changed.jobs)
        self._reached = self._reached._replace(skip=self._skip + len(self._stayed), behind=self._behind)
        return self._reached

    def _begin(self, reached: Reached) -> None:
        self._reached, self._skip, self._stayed, self._behind = reached, 0, set(), ""
