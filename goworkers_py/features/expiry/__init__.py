"""Expiry: a job whose time has passed does not begin.

A push writes the time into the payload (`job_options`, `payload`): an option that counts from the push becomes one that
does not. A rung around the run looks at it before the job begins, and once more when a suspect has waited to run alone
(`run`). A job that goes on later, as an iterable one does, was begun in time and loses the field.

In the engine: the outcome Expired and its state, and the count of such jobs in `observe.run_stats`. Nothing is written
in Redis but the payload.

- `message`: `message.expires_at`. `api`: the functions of `workers.on_expire`.
- `again`: a job that people push again gets as much time as the first one had.
- `commands`: `pyworkers enqueue --expires-in`. `views`: the time on the page of a job.

For users: docs/expiring-jobs.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.features.parts import CommandLine, Copies
    from goworkers_py.web.site.table import FeaturePages


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

    def copies(self) -> Copies:
        from goworkers_py.features.expiry.again import COPIES

        return COPIES

    def command_line(self) -> CommandLine:
        from goworkers_py.features.expiry.commands import COMMAND_LINE

        return COMMAND_LINE

    def pages(self) -> FeaturePages:
        from goworkers_py.features.expiry.views import PAGES

        return PAGES


FEATURE = ExpiryFeature()
