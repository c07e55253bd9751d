"""Commands that people give to processes, which answer them; and reports that programs give to people.

A person gives a *call*, by the command line, a page or `inspector.call`. It stands in one stream in the broker, and
each process of its target reads it there, obeys and answers (`service`). The commands that every process knows are done
in the thread `commands` itself (`built_in_commands`), those of the program in threads of their own (`own_commands`). A
process that knows no calls is asked by a signal, as Sidekiq does it. In the engine: `core.command`,
`brokers.contracts.control`, `runtime.controls`, and the group `processes` of commands in `cli/processes.py`.

- `call`: the values. `record`: they are stored as JSON.
- `contract`: what a broker must do; `redis`, `redis_part`, `memory`: brokers that do it.
- `api`: `workers.report`. `admin`: verbs of the inspector. `commands`, `views`, `access`: people.

For users: docs/commands-and-reports.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.features.calls.contract import Calls as CallsPart
    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.web.site.table import FeaturePages

_OF_PROCESSES = ("quiet", "resume", "stop", "reload", "dump", "log-level", "concurrency", "pause-queue",
                 "resume-queue", "call")  # fmt: skip


class CallsFeature(Feature):
    """Processes answer commands of people, and give reports."""

    contract, kept = "Calls", "commands that are answered"
    verbs = "CallVerbs"
    commands = ("reports", *(f"processes {name}" for name in _OF_PROCESSES))

    def in_process(self, process: WorkerProcess) -> InProcess | None:
        from goworkers_py.features.calls.contract import Calls

        calls = process.broker.part(Calls)
        if calls is None or process.controls is None:
            return None
        from goworkers_py.features.calls.service import CommandsHere

        return CommandsHere(process, process.controls, calls)

    # --- brokers

    def part(self, family: str) -> Callable[[Any], CallsPart] | None:
        if family == "redis":
            from goworkers_py.features.calls.redis import RedisCalls

            return lambda broker: RedisCalls(broker.connections, broker.keys, broker.listener)
        if family == "memory":
            from goworkers_py.features.calls.memory import MemoryCalls

            return lambda broker: MemoryCalls(broker.state)
        return None

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.calls.memory import CallTable

        return CallTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.calls.redis_part import part

        return part()

    # --- people

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.calls import commands

        function = name.split()[-1].replace("-", "_")
        found: click.Command = getattr(commands, "call_" if function == "call" else function)
        return found

    def access(self) -> FeatureAccess:
        from goworkers_py.features.calls.access import ACCESS

        return ACCESS

    def pages(self) -> FeaturePages:
        from goworkers_py.features.calls.views import PAGES

        return PAGES


FEATURE = CallsFeature()
