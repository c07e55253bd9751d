"""Chains: each job is pushed when the one before it has ended well.

The links that are still to come wait in the record of the chain. The end of a job tells its chain (`end`), in the step
of the end. When all parts of a link have ended well, the next link is pushed in that step, with their results in the
places of PREVIOUS. Another end stops the chain; when that job is retried by hand and ends well, the chain goes on.

Chains use batches: a chain that is pushed in the block of a batch joins each of its links to that batch. In the engine:
nothing.

- `chain`: the values. `payload`: the chain in a job. `effects`: the end of a link. `run`: its result.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `api`: `workers.chain`. `chain_list`: `workers.chains`. `admin`: verbs of the inspector. `commands`, `views`,
  `metrics`, `access`: people. `steps`: chains in `crash_points`.

For users: docs/chains.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.features.chains.contract import Chains
    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.features.parts import Figures, ForTests, Moves
    from goworkers_py.web.site.table import FeaturePages


class ChainsFeature(Feature):
    """Each job is pushed when the one before it has ended well."""

    uses = ("batches", "cancelling")  # each link joins the batch in which its chain was pushed
    contract, kept = "Chains", "chains"
    verbs = "ChainVerbs"
    needs: ClassVar = {"chain": "0.4.0"}
    members_of_one_job = ("chain",)

    def moves(self) -> Moves:
        from goworkers_py.features.chains.end import MOVES

        return MOVES

    def for_tests(self) -> ForTests:
        from goworkers_py.features.chains.steps import FOR_TESTS

        return FOR_TESTS

    def figures(self) -> Figures:
        from goworkers_py.features.chains.metrics import FIGURES

        return FIGURES

    def in_process(self, process: WorkerProcess) -> InProcess:
        from goworkers_py.features.chains.run import ChainRuns

        return ChainRuns()

    # --- brokers

    def part(self, family: str) -> Callable[[Any], Chains] | None:
        if family == "redis":
            from goworkers_py.features.chains.redis import RedisChains

            return lambda broker: RedisChains(broker.connections, broker.keys)
        if family == "memory":
            from goworkers_py.features.chains.memory import MemoryChains

            return lambda broker: MemoryChains(broker.state)
        return None

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.chains.memory import ChainTable

        return ChainTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.chains.redis_part import part

        return part()

    def access(self) -> FeatureAccess:
        from goworkers_py.features.chains.access import ACCESS

        return ACCESS

    # --- people

    commands = ("chains",)

    def pages(self) -> FeaturePages:
        from goworkers_py.features.chains.views import PAGES

        return PAGES

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.chains.commands import chains

        return chains


FEATURE = ChainsFeature()
