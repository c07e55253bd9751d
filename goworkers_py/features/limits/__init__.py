"""Limits: how many jobs of the whole fleet run at once, and how many begin in a time.

A limit has a *slot* for each key, or one for all jobs. A job takes a place in the slot before it begins (`run`), and
its end frees the place (`end`). While the slot is full, the job waits in the slot's *line*. The thread of the releaser
looks at the lines and lets the next jobs go (`service`). A job of a strict limit (`concurrent=1`) takes its place, or
joins the line, at its push already (`push`). Places are freed when their job ends or is recovered, never by a time.

In the engine: lines (`core.line_owner`, `policy.lines`, the outcome Park), `core.holder`, and `api.block_owner`, the
process behind a block of code that has a place.

- `limit`: the values. `payload`: the slots in a job. `effects`, `end`: places follow the moves and the end of a job.
- `limiting`: the slots that a job needs, by its class, also those of a job whose process has died.
  `options`, `configured`: the sections [limit:NAME].
- `job_options`: `limits=` of `@job`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `api`: `workers.limit`. `admin`: verbs of the inspector. `commands`, `views`, `findings`, `metrics`, `access`: people.
- `steps`: blocks under a limit in `crash_points`.

For users: docs/limits.md, docs/not-too-many-at-once.md and docs/one-after-the-other.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.config.option_rows import FeatureSection
    from goworkers_py.config.options import Config
    from goworkers_py.features.in_process import InProcess, Recovering, WorkerProcess
    from goworkers_py.features.limits.contract import Limits as LimitsPart
    from goworkers_py.features.parts import Figures, ForTests, Moves, Pushes, Whereabouts
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.policy.registry import Registry
    from goworkers_py.web.site.table import FeaturePages


class LimitsFeature(Feature):
    """How many jobs of the whole fleet run at once, and how many begin in a time."""

    contract, kept = "Limits", "limits of jobs"
    # A job of the queue service has no place in the store from which it could go into a line.
    kept_beside = False
    options_of_code = "LimitOptions"
    verbs = "LimitVerbs"
    needs: ClassVar = {"limits": "0.4.0"}
    push_marks = frozenset({"limits"})

    def moves(self) -> Moves:
        from goworkers_py.features.limits.end import MOVES

        return MOVES

    def pushes(self) -> Pushes:
        from goworkers_py.features.limits.push import PUSHES

        return PUSHES

    def for_tests(self) -> ForTests:
        from goworkers_py.features.limits.steps import FOR_TESTS

        return FOR_TESTS

    def figures(self) -> Figures:
        from goworkers_py.features.limits.metrics import FIGURES

        return FIGURES

    def whereabouts(self) -> Whereabouts:
        from goworkers_py.features.limits.admin import WHEREABOUTS

        return WHEREABOUTS

    def marks_class(self, options: Mapping[str, Any]) -> bool:
        return bool(options.get("limits"))

    def needs_of_class(self, options: Mapping[str, Any]) -> Collection[str]:
        return ("limits",) if options.get("limits") else ()

    def check(self, registry: Registry, config: Config) -> None:
        from goworkers_py.features.limits.configured import check_limits
        from goworkers_py.features.limits.limiting import declared_limits

        check_limits(declared_limits(registry), config)

    def recovering(self, registry: Registry, config: Config, wall: Callable[[], float]) -> Recovering:
        from goworkers_py.features.limits.limiting import Limiting

        return Limiting(registry, config)

    def in_process(self, process: WorkerProcess) -> InProcess | None:
        from goworkers_py.features.limits.contract import Limits
        from goworkers_py.features.limits.run import LimitedRuns

        limits = process.broker.part(Limits)
        return None if limits is None else LimitedRuns(process, limits)

    def part(self, family: str) -> Callable[[Any], LimitsPart] | None:
        if family == "redis":
            from goworkers_py.features.limits.redis import RedisLimits

            return lambda broker: RedisLimits(broker.connections, broker.keys, broker.begins)
        if family == "memory":
            from goworkers_py.features.limits.memory import MemoryLimits

            return lambda broker: MemoryLimits(broker.state, broker.endings)
        return None

    # --- brokers

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.limits.memory import SlotTable

        return SlotTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.limits.redis_part import part

        return part()

    # --- people

    commands = ("limits",)
    members_of_arguments = ("limits",)

    def sections(self) -> Collection[type[FeatureSection]]:
        from goworkers_py.features.limits.options import LimitConfig

        return (LimitConfig,)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.limits.commands import limits

        return limits

    def access(self) -> FeatureAccess:
        from goworkers_py.features.limits.access import ACCESS

        return ACCESS

    def checks(self, inspector: Inspector, work: OurWork | None) -> Checks:
        from goworkers_py.features.limits.findings import limit_findings

        return {"limits": lambda: limit_findings(inspector)}

    def pages(self) -> FeaturePages:
        from goworkers_py.features.limits.views import PAGES

        return PAGES


FEATURE = LimitsFeature()
