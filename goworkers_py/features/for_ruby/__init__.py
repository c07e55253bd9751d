"""For Ruby: the gems that look after a job of Ruby know how it has ended here.

Ruby pushes a job in a batch, or under a lock, and a worker in Python runs it. The code of the gem that counts the batch
or frees the lock is Ruby's. So either Ruby runs it, for an *echo*: the payload comes into a queue of Ruby once more,
and its Sidekiq runs the middleware without the job's code. Or, with `locks = native`, the locks of sidekiq-unique-jobs
are taken and freed here. Both are decided in one place (`end`), because each lock is freed by one of the two. The
section [echo] of the configuration says which jobs have which (`options`). So the effects of a move follow from the
payload and the configuration. In the engine: nothing.

- `payload`: the marks of Ruby's gems in a payload, and the echo. `lock`: the lock of a payload.
- `run`: a job does not begin while another one holds its lock, and the effects of its end. `effects`: those on locks.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`: Redis does it, in the keys of the gem. `memory`: no
  Ruby reaches it.
- `access`: the access rules.

For users: docs/echoes-for-ruby.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.config.option_rows import FeatureSection
    from goworkers_py.config.options import Config
    from goworkers_py.features.for_ruby.contract import RubyLocks
    from goworkers_py.features.for_ruby.end import ForRuby
    from goworkers_py.features.in_process import InProcess, Recovering, WorkerProcess
    from goworkers_py.features.parts import Moves, Queues
    from goworkers_py.policy.registry import Registry


class ForRubyFeature(Feature):
    """Ruby's gems know when one of their jobs has ended here: by an echo of it, or because its lock is freed."""

    contract = "RubyLocks"

    def moves(self) -> Moves:
        from goworkers_py.features.for_ruby.end import MOVES

        return MOVES

    def queues(self) -> Queues:
        from goworkers_py.features.for_ruby.options import QUEUES

        return QUEUES

    def recovering(self, registry: Registry, config: Config, wall: Callable[[], float]) -> Recovering | None:
        policy = _policy(config)
        if policy is None:
            return None
        from goworkers_py.features.for_ruby.end import RecoveringForRuby

        return RecoveringForRuby(policy)

    def in_process(self, process: WorkerProcess) -> InProcess | None:
        policy = _policy(process.plan.config)
        if policy is None:
            return None
        from goworkers_py.features.for_ruby.run import RubyRuns

        return RubyRuns(process, policy)

    # --- brokers

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.for_ruby.memory import RubyLocksInMemory

        return lambda state: RubyLocksInMemory()

    def redis(self) -> RedisPart:
        from goworkers_py.features.for_ruby.redis_part import part

        return part()

    def part(self, family: str) -> Callable[[Any], RubyLocks] | None:
        if family == "redis":
            from goworkers_py.features.for_ruby.redis import RedisRubyLocks

            return lambda broker: RedisRubyLocks(broker.connections, broker.keys)
        if family == "memory":
            from goworkers_py.features.for_ruby.memory import MemoryRubyLocks

            return lambda broker: MemoryRubyLocks()
        return None

    # --- people

    def sections(self) -> Collection[type[FeatureSection]]:
        from goworkers_py.features.for_ruby.options import EchoConfig

        return (EchoConfig,)

    def access(self) -> FeatureAccess:
        from goworkers_py.features.for_ruby.access import ACCESS

        return ACCESS


def _policy(config: Config) -> ForRuby | None:
    """None where the configuration has no such section, or says that nothing is done for Ruby."""
    if not config.sections:
        return None
    from goworkers_py.features.for_ruby.end import ForRuby
    from goworkers_py.features.for_ruby.options import EchoConfig

    return ForRuby.of(config.section_of(EchoConfig))


FEATURE = ForRubyFeature()
