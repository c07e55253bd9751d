"""Expiry: a job whose time has passed does not begin.

A push writes the time into the payload (`job_options`, `payload`): an option that counts from the push becomes one that
does not. A rung around the run looks at it before the job begins, and once more when a suspect has waited to run alone
(`run`). A job that goes on later, as an iterable one does, was begun in time and loses the field.

- `message`: `message.expires_at`. `api`: the functions of `workers.on_expire`.
- `again`: a job that people push again gets as much time as the first one had.
- `commands`: `pyworkers enqueue --expires-in`. `views`: the time on the page of a job.

For users: docs/expiring-jobs.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.web.site.table import FeaturePages
    from goworkers_py.wire.message import Message


class ExpiryFeature(Feature):
    """A job whose time has passed does not begin."""

    options = "ExpiryOptions"
    message = "ExpiringMessage"
    needs: ClassVar = {"expires": "0.4.0"}
    fields_until_begun = frozenset(("expires_at", "expiry"))
    counters: ClassVar = {"expired": ("expired_total", "jobs that were not begun by their expires_at, and dropped")}

    def in_process(self, process: WorkerProcess) -> InProcess:
        from goworkers_py.features.expiry.run import ExpiringRuns

        return ExpiringRuns(process.plan.registry, process.shared.counters, process.shared.clock.wall)

    # --- people

    def changes_of_copy(self, first: Message, now: float) -> Mapping[str, Any]:
        from goworkers_py.features.expiry.again import as_much_time

        return as_much_time(first, now)

    def flags_of_push(self) -> Collection[click.Option]:
        from goworkers_py.features.expiry.commands import EXPIRES_IN

        return (EXPIRES_IN,)

    def pages(self) -> FeaturePages:
        from goworkers_py.features.expiry.views import PAGES

        return PAGES


FEATURE = ExpiryFeature()
