"""The parts of a pool that each of its queues has for itself: the guard, and the chain inside of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from goworkers_py.core.clock import Clock
from goworkers_py.core.home import Home, RunHome
from goworkers_py.core.levels import bare_list_of, base_of
from goworkers_py.core.values import dataclass
from goworkers_py.features.in_process import InProcess, StandIn
from goworkers_py.links.chain import Run, adapt, wrap_all
from goworkers_py.links.log import log_runs
from goworkers_py.links.perform import NOT_RESUMED, Resume, perform
from goworkers_py.links.retry import RetryLink
from goworkers_py.links.stats import stats
from goworkers_py.links.term import in_term
from goworkers_py.links.time_limit import Watch, time_limit
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.policy.needs import Needs
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.runtime.plan import Plan
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.running.guard import Guard, RunSuspect
from goworkers_py.runtime.running.net import Net
from goworkers_py.runtime.running.run_ends import RunEnds
from goworkers_py.runtime.shared import Shared
from goworkers_py.wire.message import Timestamps


@dataclass(frozen=True, slots=True)
class Lane:
    """Safe to share: each part has its locks inside."""

    queue: str
    guard: Guard  # with the chain around the jobs of this queue
    run_stats: RunStats
    home: Home  # the broker of the queue


def lane_of(
    plan: Plan,
    pool: Pool,
    queue: str,
    watch: Watch,
    shared: Shared,
    by_feature: Mapping[str, InProcess],
    ends: RunEnds,
    run_suspect: RunSuspect,
) -> Lane:
    """The test modes run jobs through such a lane too. `by_feature`: the parts of the features, by their names."""
    parts, timestamps = [*by_feature.values()], Timestamps(plan.config.timestamps)
    run_stats = RunStats(plan.registry.names_in(base_of(queue)))
    chain_around = partial(_chain, plan, pool, queue, run_stats, watch, shared.clock)
    resumes = {name: part.resume for name, part in by_feature.items() if type(part).resume is not InProcess.resume}
    stand_ins = [stand_in for part in parts if (stand_in := part.stand_in()) is not None]
    read = None
    if bare_list_of(queue):
        from goworkers_py.policy.bodies import reader_of_bodies

        read = reader_of_bodies(queue, shared.clock.wall, timestamps)
    guard = Guard(
        chain_around(resumes),
        Net(_retry_policy(plan), plan.registry, plan.handlers, run_stats, shared.clock.at_latest),
        Needs(timestamps, shared.clock.wall),
        plan.registry,
        shared.alarms,
        parts,
        ends,
        run_suspect,
        {stand_in.mark: chain_around(NOT_RESUMED, stand_in) for stand_in in stand_ins},
        read,
    )
    return Lane(queue, guard, run_stats, plan.config.home)


def _chain(
    plan: Plan,
    pool: Pool,
    queue: str,
    run_stats: RunStats,
    watch: Watch,
    clock: Clock,
    resumes: Mapping[str, Resume],
    stand_in: StandIn | None = None,
) -> Run:
    """The whole chain around a job of one queue, from the outermost link inwards. With `stand_in`, around code that
    runs in the place of that of jobs."""
    config, timestamps = plan.config, Timestamps(plan.config.timestamps)
    # A retry is counted from the latest time that the server's clock may show: it is never early.
    retry = RetryLink(_retry_policy(plan), plan.registry, plan.handlers, clock.at_latest)
    outer = [adapt(link) for link in plan.links.prepended]
    inner = [*plan.links.appended, *plan.queue_links.get(queue, ())]
    registry = plan.registry if stand_in is None else stand_in.registry
    return wrap_all(
        perform(registry, RunHome(config.home, lambda: timestamps.write(clock.wall())), plan.arounds, resumes),
        [
            *([in_term(plan.term)] if plan.term is not None else []),
            *([retry] if outer else []),  # for the exceptions of the user's outer links
            *outer,
            log_runs(plan.registry),
            stats(run_stats, pool.prefetch),
            retry,
            time_limit(plan.registry, clock, watch),
            *map(adapt, inner),
            *plan.arounds.links(),
            *([] if stand_in is None else [stand_in.link]),
        ],
    )


def _retry_policy(plan: Plan) -> RetryPolicy:
    return RetryPolicy(plan.config.max_retries, Timestamps(plan.config.timestamps))
