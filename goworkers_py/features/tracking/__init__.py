"""Tracking: a record of a job tells its state, its progress and its result.

A job is tracked when its payload has `track` or `retain`, or its class has one of these options. Its push makes the
record (`push`, `tie`), and each move and end of the job writes the record in its own step (`end`, `effects`). A thread
writes which jobs run, and how far they have got (`service`, `run`, `tracked_run`). Without a record, `status` searches
all places for the job.

In the engine: `admin.job_lookup` (that search), `admin.job_status`, `cli/job.py` and the page of a job (what people
see), `Message.progress`, and the option `result_max_bytes` in `config.options`.

- `record`: the texts of a record, field by field; its values are in `wire.job_record`.
- `job_options`: `track=` and `retain=` of `@job`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it, with a list of
  ended jobs by state.
- `api`: `workers.result` waits for the end of a job.
- `admin`: verbs of the inspector. `views`: `/api/status` and `/api/result`. `access`: the access rules.

For users: docs/job-states.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.config.options import Config
    from goworkers_py.features.in_process import InProcess, Recovering, WorkerProcess
    from goworkers_py.features.parts import Copies, Moves, Pushes, Whereabouts
    from goworkers_py.features.tracking.contract import Records
    from goworkers_py.policy.registry import Registry
    from goworkers_py.web.site.table import FeaturePages


class TrackingFeature(Feature):
    """A record of a job tells its state, its progress and its result."""

    contract, kept = "Records", "records of jobs"
    options = "TrackingOptions"
    verbs = "RecordVerbs"
    needs: ClassVar = {"result": "0.4.0"}
    push_marks = frozenset({"track", "retain"})

    def moves(self) -> Moves:
        from goworkers_py.features.tracking.end import MOVES

        return MOVES

    def pushes(self) -> Pushes:
        from goworkers_py.features.tracking.push import PUSHES

        return PUSHES

    def copies(self) -> Copies:
        from goworkers_py.features.tracking.tie import COPIES

        return COPIES

    def whereabouts(self) -> Whereabouts:
        from goworkers_py.features.tracking.admin import WHEREABOUTS

        return WHEREABOUTS

    def marks_class(self, options: Mapping[str, Any]) -> bool:
        return any(options.get(name) for name in ("track", "retain"))

    def recovering(self, registry: Registry, config: Config, wall: Callable[[], float]) -> Recovering:
        from goworkers_py.features.tracking.end import Tracking

        return Tracking(registry, config, wall)

    def in_process(self, process: WorkerProcess) -> InProcess:
        from goworkers_py.features.tracking.contract import Records
        from goworkers_py.features.tracking.end import Tracking
        from goworkers_py.features.tracking.run import TrackedRuns
        from goworkers_py.features.tracking.service import Tracker

        plan, shared = process.plan, process.shared
        tracker = Tracker(process.broker.part(Records), process.running, shared.outage, process.shown)
        return TrackedRuns(Tracking(plan.registry, plan.config, shared.clock.wall), tracker)

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.tracking.memory import RecordTable

        return lambda state: RecordTable(lambda: state.clock())

    def redis(self) -> RedisPart:
        from goworkers_py.features.tracking.redis_part import part

        return part()

    def part(self, family: str) -> Callable[[Any], Records] | None:
        if family == "redis":
            from goworkers_py.features.tracking.redis import RedisRecords

            return lambda broker: RedisRecords(broker.connections, broker.keys, broker.listener)
        if family == "memory":
            from goworkers_py.features.tracking.memory import MemoryRecords

            return lambda broker: MemoryRecords(broker.state, broker.endings)
        return None

    def access(self) -> FeatureAccess:
        from goworkers_py.features.tracking.access import ACCESS

        return ACCESS

    # --- people

    def pages(self) -> FeaturePages:
        from goworkers_py.features.tracking.views import PAGES

        return PAGES


FEATURE = TrackingFeature()
