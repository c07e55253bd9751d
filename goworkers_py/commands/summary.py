"""What `retries summary` and `dead summary` print."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from goworkers_py.commands.choosing import progress
from goworkers_py.commands.listing import LONGEST_ERROR, list_entries
from goworkers_py.commands.tables import cut, when
from goworkers_py.inspect.sets import JobSet
from goworkers_py.inspect.summary import Kind, Summary

COLUMNS: Mapping[str, Callable[[Kind], str]] = {
    "count>": lambda kind: str(kind.count),
    "class": lambda kind: kind.job_class,
    "oldest": lambda kind: when(kind.oldest),
    "newest": lambda kind: when(kind.newest),
    "error": lambda kind: cut(": ".join(filter(None, (kind.error_class, kind.error_message))) or "-", LONGEST_ERROR),
}


def show_summary(jobs: JobSet, limit: int, as_json: bool) -> None:
    summary = Summary()
    with progress(jobs.size()) as advance:
        for page in jobs.pages():
            summary.add(page)
            advance(len(page))
    list_entries(COLUMNS, summary.kinds(), limit, as_json)
