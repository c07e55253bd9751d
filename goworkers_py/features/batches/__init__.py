"""Batches: jobs whose ends are counted together, with callbacks at the end.

Pushes inside of a block join its batch (`joining`, `push`). The push counts its job in the record of the batch, in its
own step; a batch that has ended takes no job. The end of a job is counted in the step of the end (`end`), wherever that
is: in a worker, at a recovery, or by people. The last end pushes the callbacks of the batch, and counts as an end in
the batch around it. So a batch holds numbers only, whatever its size.

In the engine: the error BatchEnded, and `core.push_blocks`, by which a block has a say in the pushes inside of it.

- `batch`: the values. `payload`, `message`: the batch in a job. `effects`: the end of a job in its batch.
- `run`: the short cut of jobs that are in a batch and are nothing else.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `api`: `workers.batch`. `batch_list`: `workers.batches`. `admin`: verbs of the inspector. `commands`, `views`,
  `findings`, `metrics`, `access`: people. `steps`: blocks of batches in `crash_points`.

For users: docs/batches.md and docs/many-as-one.md.
"""

from __future__ import annotations

from collections.abc import Callable
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
    from goworkers_py.features.batches.contract import Batches
    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.features.parts import Figures, ForTests, Moves, Pushes
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.web.site.table import FeaturePages


class BatchesFeature(Feature):
    """Jobs whose ends are counted together, with callbacks at the end."""

    uses = ("cancelling",)
    contract, kept = "Batches", "batches"
    verbs = "BatchVerbs"
    message = "MessageOfBatch"
    needs: ClassVar = {"batch": "0.4.0"}
    members_of_one_job = ("batch",)

    def moves(self) -> Moves:
        from goworkers_py.features.batches.end import MOVES

        return MOVES

    def pushes(self) -> Pushes:
        from goworkers_py.features.batches.push import PUSHES

        return PUSHES

    def for_tests(self) -> ForTests:
        from goworkers_py.features.batches.steps import FOR_TESTS

        return FOR_TESTS

    def figures(self) -> Figures:
        from goworkers_py.features.batches.metrics import FIGURES

        return FIGURES

    def in_process(self, process: WorkerProcess) -> InProcess:
        from goworkers_py.features.batches.run import BatchRuns

        return BatchRuns()

    # --- brokers

    def part(self, family: str) -> Callable[[Any], Batches] | None:
        if family == "redis":
            from goworkers_py.features.batches.redis import RedisBatches

            return lambda broker: RedisBatches(broker.connections, broker.keys)
        if family == "memory":
            from goworkers_py.features.batches.memory import MemoryBatches

            return lambda broker: MemoryBatches(broker.state)
        return None

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.batches.memory import BatchTable

        return BatchTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.batches.redis_part import part

        return part()

    def access(self) -> FeatureAccess:
        from goworkers_py.features.batches.access import ACCESS

        return ACCESS

    # --- people

    commands = ("batches",)

    def checks(self, inspector: Inspector, work: OurWork | None) -> Checks:
        from goworkers_py.features.batches.findings import batch_findings

        return {"batches": lambda: batch_findings(inspector)}

    def pages(self) -> FeaturePages:
        from goworkers_py.features.batches.views import PAGES

        return PAGES

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.batches.commands import batches

        return batches


FEATURE = BatchesFeature()
