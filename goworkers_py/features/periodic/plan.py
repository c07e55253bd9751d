"""Puts together the periodic jobs of a process: those that its code declares, and those of its configuration."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from goworkers_py.api.job_writer import check_push
from goworkers_py.api.request import PushRequest
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.core.values import dataclass
from goworkers_py.features import FEATURES
from goworkers_py.features.periodic.options import PeriodicConfig
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import CatchUp, Overlap, PeriodicJob, PeriodicJobs, Release, Rule
from goworkers_py.features.periodic.slots import slots_of
from goworkers_py.features.unique.uniqueness import named_lock
from goworkers_py.wire import payload
from goworkers_py.wire.needs import TYPED

if TYPE_CHECKING:
    from goworkers_py.api.client import Client
    from goworkers_py.api.job import Job
    from goworkers_py.config.options import Config
    from goworkers_py.core.effect import Push
    from goworkers_py.policy.registry import JobSpec, Registry

NAME = "periodic"  # of the feature


# A function that makes the arguments of each job, from the time of its slot, in the time zone of the schedule.
ArgsOf = Callable[[datetime.datetime], Sequence[Any]]


@dataclass(frozen=True)
class DeclaredPeriodic:
    """A call of `periodic`."""

    name: str
    rule: Rule
    job: Job[..., Any]
    args: Sequence[Any] | ArgsOf = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    catch_up: CatchUp = "latest"
    overlap: Overlap = "allow"


@dataclass(frozen=True)
class _Pushes:
    """The parts of which the pushes of a periodic job are made."""

    place: str  # for errors
    name: str
    rule: Rule
    job_class: str
    queue: str
    options: EnqueueOptions
    spec: JobSpec | None  # None: a class of another program
    args: Sequence[Any] | ArgsOf
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    catch_up: CatchUp = "latest"
    overlap: Overlap = "allow"

    def arguments(self, slot: float) -> tuple[list[Any], Mapping[str, Any]]:
        """As JSON."""
        args = self.args(_moment(slot, self.rule)) if callable(self.args) else self.args
        if isinstance(args, str) or not isinstance(args, Sequence):
            raise ArgumentError("args must be a list of arguments, or a function that returns one")
        if self.spec is not None:
            self.spec.arguments.check(args, self.kwargs)
        return self.dumped(args)

    def dumped(self, args: Sequence[Any]) -> tuple[list[Any], Mapping[str, Any]]:
        """Returns these arguments and the keyword arguments as JSON."""
        if self.spec is None:
            return list(args), self.kwargs
        written, kwargs = self.spec.arguments.dump(list(args), self.kwargs)
        return list(written), kwargs

    def draft(
        self, client: Callable[[], Client], lock: Mapping[str, Any], slot: float, args: list[Any] | None
    ) -> tuple[str, Push] | None:
        """`args` override those of the code. `lock`: the options of the lock against overlaps, if there is one."""
        made, kwargs = self.arguments(slot) if args is None else (args, {})
        options, needs, given = self.options, set(self.spec.needs if self.spec is not None else ()), None
        if self.spec is not None and not self.spec.arguments.plain:
            needs.add(TYPED)
            given = [self.spec.arguments.load(made, kwargs)]  # `unique_by` gets the values that the code gets
        if lock:
            options = options.replaced(**lock)
        asked = PushRequest(self.queue, self.job_class, [made], options, kwargs, frozenset(needs), None, given)
        return client().draft(asked)


def periodic_jobs(config: Config, registry: Registry, client: Callable[[], Client]) -> PeriodicJobs | None:
    """None where there are none. Raises ConfigError for a schedule that cannot be right."""
    declared: Sequence[DeclaredPeriodic] = registry.of_features.get(NAME, ())
    source = config.source or _source(config)
    # Partitions may share a broker, and each has its own jobs there.
    release = Release(f"{source}.{config.partition}" if config.partition else source, config.generation)
    of_code = (_of_code(periodic) for periodic in declared if periodic.job.partition == config.partition)
    pushes = [*of_code, *(_of_config(section, registry) for section in config.sections_of(PeriodicConfig))]
    jobs: dict[str, PeriodicJob] = {}
    for periodic in pushes:
        job = _job(periodic, release, client)
        # A module that is imported twice declares its periodic jobs again.
        if periodic.name in jobs and jobs[periodic.name].schedule != job.schedule:
            raise ConfigError(f"{periodic.place}: there is another periodic job of this name; give one of them name=")
        jobs[periodic.name] = job
    return PeriodicJobs(release, tuple(jobs.values())) if jobs else None


def _source(config: Config) -> str:
    return config.require[0].partition(".")[0] if config.require else "default"


def _of_code(declared: DeclaredPeriodic) -> _Pushes:
    spec, queue, options = declared.job.target
    rest = (declared.args, declared.kwargs, declared.catch_up, declared.overlap)
    return _Pushes(f"@periodic {declared.name}", declared.name, declared.rule, spec.name, queue, options, spec, *rest)


def _of_config(section: PeriodicConfig, registry: Registry) -> _Pushes:
    place = f"[periodic:{section.name}]"
    if not section.class_:
        raise ConfigError(f"{place} names no class: write class = Report::NightlyJob")
    if bool(section.cron) == bool(section.every):
        raise ConfigError(f"{place} needs cron or every, and not both: cron = 0 3 * * *, or every = 30")
    if section.every and section.timezone != "UTC":
        raise ConfigError(f"{place} timezone: a time zone belongs to cron, not to every")
    rule = Rule(section.cron, 0, section.timezone) if section.cron else Rule(every=section.every)
    spec = registry.job(section.class_)
    queue = section.queue or (spec.queue if spec else "default")
    if spec is None and section.overlap != "allow" and not registry.handled(queue):
        raise ConfigError(
            f"{place} overlap = {section.overlap}: no job is registered here as {section.class_!r}, and only a process "
            "of pyworkers frees the lock at its end; use overlap = allow, or a lock of the program that runs the class"
        )
    options = NO_OPTIONS.over(spec.options) if spec else NO_OPTIONS
    # Their parsers have checked them.
    catch_up, overlap = cast(CatchUp, section.catch_up), cast(Overlap, section.overlap)
    return _Pushes(place, section.name, rule, section.class_, queue, options, spec, section.args, {}, catch_up, overlap)


def _job(periodic: _Pushes, release: Release, client: Callable[[], Client]) -> PeriodicJob:
    try:
        slots_of(periodic.rule)
        args, kwargs = ([], periodic.dumped([])[1]) if callable(periodic.args) else periodic.arguments(0.0)
        payload.check_plain(args, "args")
        payload.check_plain(dict(kwargs), "kwargs")
        check_push(PushRequest(periodic.queue, periodic.job_class, [args], periodic.options, kwargs))
    except (ArgumentError, ConfigError) as error:
        raise ConfigError(f"{periodic.place}: {error}") from None
    if not payload.encodable(periodic.name) or not periodic.name.isprintable():
        raise ConfigError(f"{periodic.place}: the name must be printable text")
    lock = {} if periodic.overlap == "allow" else _lock_of(periodic, release)
    fields = {
        "class": periodic.job_class,
        "queue": periodic.queue,
        "catch_up": periodic.catch_up,
        "overlap": periodic.overlap,
    }
    shown = {"args_of": _name_of(periodic.args)} if callable(periodic.args) else {"args": args}
    more = {"kwargs": dict(kwargs)} if kwargs else {}
    made = schedule(periodic.name, periodic.rule, {**fields, **shown, **more})
    return PeriodicJob(made, periodic.catch_up, partial(periodic.draft, client, lock))


def _lock_of(periodic: _Pushes, release: Release) -> Mapping[str, Any]:
    """The options of the lock against overlaps."""
    name, waits = f"{periodic.job_class}:periodic:{release.source}:{periodic.name}", periodic.overlap == "queue"
    said = periodic.options.said
    if said.get("unique_for"):
        raise ConfigError(
            f"{periodic.place}: overlap={periodic.overlap!r} and unique_for are two locks of one job; leave one of "
            "them out"
        )
    gathered = next((feature.gathered_by for feature in FEATURES if said.get(feature.gathered_by)), "")
    if waits and gathered:
        raise ConfigError(
            f"{periodic.place}: overlap='queue' does not go with {gathered}, because a member does not begin by "
            "itself; use overlap='skip'"
        )
    return named_lock(name, waits)


def _name_of(function: ArgsOf) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _moment(slot: float, rule: Rule) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(slot, ZoneInfo(rule.timezone))
