"""The periodic jobs that code declares, see `App.periodic`."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, get_args

from goworkers_py.api.job import Job
from goworkers_py.config.moments import Delay, is_number
from goworkers_py.core.errors import ConfigError
from goworkers_py.features.periodic.plan import NAME, ArgsOf, DeclaredPeriodic
from goworkers_py.features.periodic.schedule import CatchUp, Overlap, Rule
from goworkers_py.policy.registry import Registry

P = ParamSpec("P")
R = TypeVar("R")


def declaring(
    registry: Registry,
    cron: str,
    every: Delay | None,
    timezone: str,
    name: str,
    args: Sequence[Any] | ArgsOf,
    kwargs: Mapping[str, Any] | None,
    catch_up: CatchUp,
    overlap: Overlap,
) -> Callable[[Job[P, R]], Job[P, R]]:
    """The decorator of a job: it adds what it declares to `registry`."""
    rule = _rule(cron, every, timezone)
    for option, value, kind in (("catch_up", catch_up, CatchUp), ("overlap", overlap, Overlap)):
        if value not in get_args(kind):
            raise ConfigError(f"@periodic: {option} must be one of {', '.join(get_args(kind))}, is {value!r}")

    def declare(job: Job[P, R]) -> Job[P, R]:
        if not isinstance(job, Job):
            raise ConfigError(f"@periodic: {job!r} is no job: write it above @workers.job")
        periodic = DeclaredPeriodic(name or job.name, rule, job, args, dict(kwargs or {}), catch_up, overlap)
        registry.of_features.setdefault(NAME, []).append(periodic)
        return job

    return declare


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
