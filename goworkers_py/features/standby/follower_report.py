"""Shows a process that stands by to the fleet. A leader is shown by its heartbeat."""

from __future__ import annotations

from contextlib import suppress

from goworkers_py.brokers.contracts.control import Control
from goworkers_py.core import machine
from goworkers_py.core.command import Obey
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.proc import CpuMeter, resident_bytes
from goworkers_py.runtime.alive.reporter import FLEET
from goworkers_py.runtime.plan import Plan
from goworkers_py.wire.process_record import MemberPool, ProcessMember, ProcessSnapshot


class FollowerReport:
    """Used by the thread `standby`; after its end, by the thread that stops the process."""

    def __init__(self, control: Control, plan: Plan, obey: Obey | None) -> None:
        self._control = control
        self._obey = obey
        self._cpu = CpuMeter()
        pools = [MemberPool(pool.name, pool.concurrency, _weights(pool.queues, pool.weights)) for pool in plan.pools]
        partition = plan.config.partition_name
        self._member = ProcessMember(machine.time(), pools, plan.config.tag, partition=partition)
        self._every_s = plan.config.timing.beat_every_s
        self._next_at = 0.0  # monotonic
        self._shown = "", ""  # the last one

    def show(self, identity: str, standby: str, quiet: bool) -> None:
        """`standby` says whom it stands by for."""
        if (identity, standby) == self._shown and machine.monotonic() < self._next_at:
            return
        self._shown, self._next_at = (identity, standby), machine.monotonic() + self._every_s
        now = ProcessSnapshot(
            {}, quiet, resident_bytes(), 0.0, machine.time(), self._obey is None, standby, self._cpu.share()
        )
        with suppress(BrokerError):  # the elector tells of an outage
            for command in self._control.report(identity, self._member, now):
                if self._obey is not None:
                    self._obey(command, FLEET)

    def leave(self) -> None:
        with suppress(BrokerError):
            self._control.leave()


def _weights(queues: tuple[str, ...], weights: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(queues, weights or [0] * len(queues), strict=True))
