"""Reports the state of this process: to the broker with each beat, and to the fleet after it."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.brokers.contracts.control import Control
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.config.options import Config
from goworkers_py.core.command import Obey
from goworkers_py.core.config_in_force import ConfigInForce
from goworkers_py.core.proc import CpuMeter, resident_bytes
from goworkers_py.runtime.alive.health import Health
from goworkers_py.runtime.manager import Manager
from goworkers_py.runtime.shared import Shared
from goworkers_py.wire.process_record import MemberPool, ProcessMember, ProcessSnapshot


class Reporter:
    """Used by the heartbeat's thread, and after its end by the thread that stops the process. `presence` is also called
    by a worker's thread that beats for a suspect."""

    def __init__(
        self,
        control: Control,
        config: Config,
        health: Health,
        shared: Shared,
        obey: Obey | None,
        commands: Sequence[str] = (),
    ) -> None:
        """`obey` receives the commands of the fleet; None where this process is part of another program. `commands`:
        those of people that this process answers."""
        self._control = control
        self._process = config.process
        self._health = health
        self._shared = shared
        self._obey = obey
        self._commands = commands
        self._cpu = CpuMeter()
        self._started_at, self._tag, self._partition = shared.clock.wall(), config.tag, config.partition_name
        self.config: ConfigInForce | None = None  # assigned by the thread `configuration`

    def presence(self, identity: str, alone: str) -> Presence:
        managers = self._health.managers
        begun_at_most = {queue: manager.begun_at_most(queue) for manager in managers for queue in manager.queues}
        return Presence(identity, begun_at_most, self._process, alone, self._health.trouble())

    def report(self, round_trip_s: float) -> None:
        now = ProcessSnapshot(
            running=self._health.running,
            quiet=self._shared.state.quiet,
            rss=resident_bytes(),
            round_trip_s=round_trip_s,
            at=self._shared.clock.wall(),
            embedded=self._obey is None,
            cpu_share=self._cpu.share(),
        )
        for command in self._control.report(self._shared.lease.identity, self._member(), now):
            if self._obey is not None:
                self._obey(command, FLEET)
        self.record()

    def _member(self) -> ProcessMember:
        pools = [MemberPool(manager.name, manager.concurrency, _weights(manager)) for manager in self._health.managers]
        return ProcessMember(self._started_at, pools, self._tag, self._commands, self.config, self._partition)

    def record(self) -> None:
        executions = {lane.queue: lane.run_stats.executions() for lane in self._health.lanes}
        self._control.record(executions, self._shared.clock.wall())

    def leave(self) -> None:
        self._control.leave()


def _weights(manager: Manager) -> dict[str, int]:
    return dict(zip(manager.queues, manager.weights or [0] * len(manager.queues), strict=True))


FLEET = "the fleet"
