"""Periodic jobs: pushed at the times of a schedule, once in the whole fleet.

Code declares them (`api`), or a section [periodic:NAME] does (`options`). `plan` makes them ready at the start: their
schedules, and how each push is made. Each process with periodic jobs has a thread (`service`), which registers its
schedules in the broker and fires the *slots* that are due. No process is elected: the broker settles each slot once
(`contract`), by a number that each change of a schedule makes greater.

In the engine: the options `source` and `generation` in `config.options`.

- `schedule`: the values. `record`: a schedule as JSON. `slots`: the slots of a rule.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `foreign_schedule`: reads the schedules of sidekiq-cron and sidekiq-scheduler.
- `admin`: verbs of the inspector. `commands`, `views`, `findings`: people.
- `testing`: the slots of a test block whose clock travels.

For users: docs/periodic-jobs.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.api.client import Client
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.config.option_rows import FeatureSection
    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.features.parts import ForTests
    from goworkers_py.features.periodic.contract import Periodic
    from goworkers_py.features.periodic.schedule import PeriodicJobs
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.runtime.plan import Plan
    from goworkers_py.web.site.table import FeaturePages


class PeriodicFeature(Feature):
    """Jobs are pushed at the times of a schedule, once in the whole fleet."""

    uses = ("unique",)  # the lock against overlaps
    contract, kept = "Periodic", "periodic jobs"
    verbs = "PeriodicVerbs"
    counters: ClassVar = {
        "periodic_fired": ("periodic_fired_total", "slots of periodic jobs that this process has fired"),
        "periodic_skipped": (
            "periodic_skipped_total",
            "slots of periodic jobs that this process has settled without a job: missed, or the last job still runs",
        ),
        "periodic_late_seconds": (
            "periodic_late_seconds_total",
            "seconds by which the fired slots were late, in all; divide by periodic_fired_total",
        ),
    }

    # --- processes

    def planned(self, plan: Plan, client: Callable[[], Client]) -> PeriodicJobs | None:
        from goworkers_py.features.periodic.options import PeriodicConfig

        if self.name not in plan.registry.of_features and not plan.config.sections_of(PeriodicConfig):
            return None
        from goworkers_py.features.periodic.plan import periodic_jobs  # with time zones

        return periodic_jobs(plan.config, plan.registry, client)

    def in_process(self, process: WorkerProcess) -> InProcess | None:
        jobs: PeriodicJobs | None = process.plan.of_features.get(self.name)
        if jobs is None:
            return None
        from goworkers_py.features.periodic.service import PeriodicPushes

        return PeriodicPushes(process, jobs)

    def summary(self, plans: Sequence[Plan]) -> Iterator[str]:
        planned: list[PeriodicJobs] = [jobs for plan in plans if (jobs := plan.of_features.get(self.name))]
        if schedules := [job.schedule for jobs in planned for job in jobs.jobs]:
            yield f"periodic jobs: {', '.join(f'{schedule.name} ({schedule.rule})' for schedule in schedules)}"

    def for_tests(self) -> ForTests:
        from goworkers_py.features.periodic.testing import FOR_TESTS

        return FOR_TESTS

    # --- brokers

    def part(self, family: str) -> Callable[[Any], Periodic] | None:
        if family == "redis":
            from goworkers_py.features.periodic.redis import RedisPeriodic

            return lambda broker: RedisPeriodic(broker.connections, broker.keys)
        if family == "memory":
            from goworkers_py.features.periodic.memory import MemoryPeriodic

            return lambda broker: MemoryPeriodic(broker.state)
        return None

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.periodic.memory import ScheduleTable

        return ScheduleTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.periodic.redis_part import part

        return part()

    # --- people

    commands = ("periodic",)

    def sections(self) -> Collection[type[FeatureSection]]:
        from goworkers_py.features.periodic.options import PeriodicConfig

        return (PeriodicConfig,)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.periodic.commands import periodic

        return periodic

    def checks(self, inspector: Inspector, work: OurWork | None) -> Checks:
        from goworkers_py.features.periodic.findings import periodic_findings

        return {"periodic": lambda: periodic_findings(inspector, work)}

    def pages(self) -> FeaturePages:
        from goworkers_py.features.periodic.views import PAGES

        return PAGES


FEATURE = PeriodicFeature()
