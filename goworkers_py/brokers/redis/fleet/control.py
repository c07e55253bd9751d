"""This process in the fleet of Sidekiq and go-workers: its entry, its commands, its executions."""

from __future__ import annotations

import logging

from goworkers_py.brokers.contracts.control import Control
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.fleet.day_counts import DayCounts
from goworkers_py.brokers.redis.fleet.membership import FleetMembership
from goworkers_py.brokers.redis.fleet.sidekiq_metrics import SidekiqMetrics
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.command import Command
from goworkers_py.observe.executions import ByQueue
from goworkers_py.observe.executions import total as sum_of
from goworkers_py.wire.process_record import ProcessMember, ProcessSnapshot

log = logging.getLogger(__name__)

# Sidekiq's pages and go-workers2 send the name of a signal.
WORDS = {"TSTP": Command.QUIET, "TERM": Command.STOP, "TTIN": Command.DUMP}


class RedisControl(Control):
    def __init__(self, connections: Connections, keys: Keys, metrics: str) -> None:
        """`metrics` is the option of that name: which layouts of Sidekiq's Metrics page are written."""
        self._membership = FleetMembership(connections, keys)
        self._metrics = SidekiqMetrics(connections, keys, metrics)
        self._days = DayCounts(connections, keys)

    def report(self, identity: str, member: ProcessMember, now: ProcessSnapshot) -> list[Command]:
        commands = []
        for word in self._membership.meet(identity, member, now):
            if word in WORDS:
                commands.append(WORDS[word])
            else:
                log.warning("unknown command %s in the signals of this process; ignored", word)
        return commands

    def record(self, total: ByQueue, at: float) -> None:
        self._days.write(total, at)
        self._metrics.write(sum_of(total.values()), at)

    def leave(self) -> None:
        self._membership.leave()
