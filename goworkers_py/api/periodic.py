"""The method of an App that declares periodic jobs, and what becomes of the declarations when a process starts."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, get_args

from goworkers_py.api.declarations import Declarations
from goworkers_py.api.job import Job
from goworkers_py.api.partition import Partition
from goworkers_py.api.periodic_plan import ArgsOf, DeclaredPeriodic, periodic_jobs
from goworkers_py.config.moments import Delay, is_number
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.periodic import CatchUp, Overlap, Rule
from goworkers_py.runtime.plan import Plan

P = ParamSpec("P")
R = TypeVar("R")


class DeclaringPeriodic:
    _declared: Declarations

    def periodic(
        self,
        cron: str = "",
        /,
        *,
        every: Delay | None = None,
        timezone: str = "",
        name: str = "",
        args: Sequence[Any] | ArgsOf = (),
        kwargs: Mapping[str, Any] | None = None,
        catch_up: CatchUp = "latest",
        overlap: Overlap = "allow",
    ) -> Callable[[Job[P, R]], Job[P, R]]:
        """Decorator above `@workers.job`: `@workers.periodic("0 3 * * *", timezone="Europe/Berlin")` or
        `@workers.periodic(every=30)`. The daemons push the job at these times, each once in the whole fleet. Without a
        time zone, the expression is in UTC.

        `args` may be a function: `args=lambda slot: [slot.date().isoformat()]`. A job with several of these decorators
        needs a `name=` for each. docs/periodic-jobs.md explains the options.
        """
        rule = _rule(cron, every, timezone)
        for option, value, kind in (("catch_up", catch_up, CatchUp), ("overlap", overlap, Overlap)):
            if value not in get_args(kind):
                raise ConfigError(f"@periodic: {option} must be one of {', '.join(get_args(kind))}, is {value!r}")

        def declare(job: Job[P, R]) -> Job[P, R]:
            if not isinstance(job, Job):
                raise ConfigError(f"@periodic: {job!r} is no job: write it above @workers.job")
            one = DeclaredPeriodic(name or job.name, rule, job, args, dict(kwargs or {}), catch_up, overlap)
            self._declared.periodic.append(one)
            return job

        return declare

    def _with_periodic(self, plan: Plan, partition: Partition) -> Plan:
        """Those whose jobs are in the partition."""
        declared = self._declared
        jobs = periodic_jobs(declared.periodic, plan.config, declared.registry, lambda: partition.client)
        return dataclasses.replace(plan, periodic=jobs)


def _rule(cron: str | Job[..., Any], every: Delay | None, timezone: str) -> Rule:
    if isinstance(cron, Job):
        raise ConfigError("@periodic has no parentheses: write @workers.periodic(...)")
    if every is not None and timezone:
        raise ConfigError("@periodic: a time zone belongs to a cron expression, not to every=")
    if bool(cron) == (every is not None):
        raise ConfigError('@periodic takes a cron expression or every=: @periodic("0 3 * * *"), @periodic(every=30)')
    if every is None:
        return Rule(cron, 0, timezone or "UTC")
    seconds = every.total_seconds() if isinstance(every, datetime.timedelta) else every
    if not is_number(seconds) or seconds < 1 or seconds != int(seconds):
        raise ConfigError(f"@periodic: every must be whole seconds from 1 on, or a timedelta, is {every!r}")
    return Rule(every=int(seconds))
