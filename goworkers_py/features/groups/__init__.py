"""Groups: jobs wait until one job runs in the place of all of them.

The push of a *member* puts the job into its open group instead of its queue (`push`); so does a worker that meets a
member in a queue (`run`). A thread of each process that knows the class flushes the groups that are due (`service`):
the members become a *set*, and a job that aggregates the set comes into the queue, in one step. Its run calls the
function below `@NAME.aggregate` (`job`, `api`) with the arguments of the members (`run`). The end of that run
deletes the set, ends the members and pushes the job with the arguments that the function has returned, in one step too
(`end`, `effects`). So every member is aggregated exactly once, wherever a process dies.

In the engine: the outcome Joined, and the rows of a group on the page of a job.

- `job_options`: `group=` of a push, and when its group is flushed; `push.settings_in` makes `group.GroupSettings` of
  them, `payload.member_field` writes these, and `aggregates` warns where a class has them and nothing aggregates.
- `group`: the values. `payload`: the group in a job. `aggregates`: the functions that aggregate groups, by class.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `member_lookup`: finds one job among the members of groups.
- `admin`: verbs of the inspector. `commands`, `views`, `findings`, `metrics`, `access`: people.

For users: docs/groups.md and docs/many-as-one.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    from goworkers_py.features.groups.contract import Groups
    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.features.parts import Figures, Moves, Pushes, Whereabouts
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.policy.registry import Registry
    from goworkers_py.web.site.table import FeaturePages


class GroupsFeature(Feature):
    """Jobs wait until one job runs in the place of all of them."""

    uses = ("atomic",)
    contract, kept = "Groups", "groups of jobs"
    options = "GroupOptions"
    options_of_push = "GroupOfPush"
    job = "AggregatedJob"
    verbs = "GroupVerbs"
    needs: ClassVar = {"group": "0.4.0", "ended-set": "0.9.0"}
    push_marks = frozenset({"group"})
    gathered_by = "group"

    def moves(self) -> Moves:
        from goworkers_py.features.groups.end import MOVES

        return MOVES

    def pushes(self) -> Pushes:
        from goworkers_py.features.groups.push import PUSHES

        return PUSHES

    def figures(self) -> Figures:
        from goworkers_py.features.groups.metrics import FIGURES

        return FIGURES

    def whereabouts(self) -> Whereabouts:
        from goworkers_py.features.groups.member_lookup import WHEREABOUTS

        return WHEREABOUTS

    def warnings(self, registry: Registry) -> Iterator[str]:
        from goworkers_py.features.groups.aggregates import lacking_in

        return lacking_in(registry)

    def part(self, family: str) -> Callable[[Any], Groups] | None:
        if family == "redis":
            from goworkers_py.features.groups.redis import RedisGroups

            return lambda broker: RedisGroups(broker.connections, broker.keys)
        if family == "memory":
            from goworkers_py.features.groups.memory import MemoryGroups

            return lambda broker: MemoryGroups(broker.state)
        return None

    # --- brokers

    def in_process(self, process: WorkerProcess) -> InProcess:
        from goworkers_py.features.groups.run import GroupedRuns

        return GroupedRuns(process)

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.groups.memory import GroupTable

        return GroupTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.groups.redis_part import part

        return part()

    # --- people

    commands = ("groups",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.groups.commands import groups

        return groups

    def access(self) -> FeatureAccess:
        from goworkers_py.features.groups.access import ACCESS

        return ACCESS

    def checks(self, inspector: Inspector, work: OurWork | None) -> Checks:
        from goworkers_py.features.groups.findings import group_findings

        return {"groups": lambda: group_findings(inspector, work)}

    def pages(self) -> FeaturePages:
        from goworkers_py.features.groups.views import PAGES

        return PAGES


FEATURE = GroupsFeature()
