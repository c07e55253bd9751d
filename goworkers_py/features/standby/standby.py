"""A process with `standby`: of N such processes one works, and the others are ready to take over.

    elector    looks at the lease of the leader, bids, renews, resigns, see `elector`
    standby    prepares the launcher of the next term, and starts and stops it with the term, see `turns`

A `Standby` has the methods of a `Launcher`, and is started and stopped in its place. It is ready when it has seen how
the election stands.
"""

from __future__ import annotations

import logging
import math

from goworkers_py.config.partitions import place_of_broker
from goworkers_py.core import machine
from goworkers_py.core.clock import Deadline
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerUnavailable, ConfigError
from goworkers_py.features import feature_of
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.elector import Elector
from goworkers_py.features.standby.follower_report import FollowerReport
from goworkers_py.features.standby.service import Turns
from goworkers_py.observe.health_report import (
    QUIET,
    STALE_AFTER_S,
    STANDBY,
    STOPPING,
    HealthReport,
    TermReport,
    merged,
)
from goworkers_py.runtime.alive.health_handlers import HealthHandlers
from goworkers_py.runtime.daemon import PartitionWork
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.plan import Plan
from goworkers_py.runtime.run_state import RunState

log = logging.getLogger(__name__)


class Standby:
    def __init__(self, work: PartitionWork) -> None:
        plan, broker = work.plan, work.broker
        leadership = broker.part(Leadership)
        if leadership is None:
            raise ConfigError(
                f"standby needs a broker with {feature_of(Leadership).kept}, and {broker.name} has none: set another "
                "broker, or leave `standby` out"
            )
        self.plan = plan
        self._broker = broker
        self._leadership = leadership
        self._outage = Outage(broker.name, HealthHandlers(plan.on_health), place_of_broker(plan.config))
        self._elector = Elector(leadership, plan.config, self._outage)
        self._shown = FollowerReport(broker.control, plan, work.obey)
        self._turns = Turns(work, self._elector, self._shown, on_quiet_asked=self.quiet)
        self.state = RunState()
        self.health = StandbyHealth(plan, self.state, self._elector, self._turns)
        self.waits_for_broker = False

    def __str__(self) -> str:
        pools = ", ".join(f"{pool.name} ({pool.concurrency} threads)" for pool in self.plan.pools)
        return f"standing by for {pools}"

    @property
    def identity(self) -> str:
        return self._turns.next.launcher.identity if self._turns.next is not None else ""

    def start(self, stop_asked: machine.Event) -> bool:
        """False when `stop_asked` was set before the broker answered. Raises BrokerRefused when the broker refuses."""
        while not stop_asked.is_set():
            try:
                self._leadership.look(self.plan.config.partition_name)
            except BrokerUnavailable as error:
                self.waits_for_broker = True
                stop_asked.wait(self._outage.failed("start", error))
            else:
                self._outage.recovered("start")
                self._elector.start()
                self._turns.start()
                self.state.started, self.waits_for_broker = True, False
                return True
        return False

    # --- while it runs, from any thread

    def quiet(self) -> None:
        """It leads no more: a leader hands over when its running jobs have ended. Only a restart ends this state."""
        if not self.state.quiet:
            self.state.quiet = True
            self._elector.withdraw()
            self._turns.end_term()
            log.info("quiet: this process does not lead any more")

    def hurry(self) -> None:
        for launcher in self._turns.launchers:
            launcher.hurry()

    def lose_patience(self) -> None:
        for launcher in self._turns.launchers:
            launcher.lose_patience()

    def look_for_the_dead(self) -> None:
        if (turn := self._turns.now) is not None:
            turn.launcher.look_for_the_dead()

    @property
    def processed(self) -> int:
        return sum(launcher.processed for launcher in self._turns.launchers)

    @property
    def workers_alive(self) -> int:
        return sum(launcher.workers_alive for launcher in self._turns.launchers)

    # --- stop

    def stop(self, patiently: bool = False) -> bool:
        """True when nothing was left behind."""
        self.state.deadline = Deadline(math.inf if patiently else self.plan.config.timeout)
        self._turns.patiently = patiently
        self._elector.withdraw()
        self._turns.stop()
        self._turns.join(Deadline(math.inf))  # the launcher has the time limits
        if self._elector.leads:  # it has won just before
            self._elector.finished(self.plan.config.leader_lease)
        self._elector.stop()
        ended = self._elector.join(Deadline(Launcher.after_jobs_s))
        self.state.gave_up = any(launcher.state.gave_up for launcher in self._turns.launchers)
        self._shown.leave()
        self._broker.close()
        return self._turns.clean and ended


class StandbyHealth:
    """Safe to call from any thread."""

    def __init__(self, plan: Plan, state: RunState, elector: Elector, turns: Turns) -> None:
        self._config = plan.config
        self._state = state
        self._elector = elector
        self._turns = turns

    @property
    def state(self) -> str:
        if self._state.deadline is not None:
            return STOPPING
        if self._state.quiet:
            return QUIET
        turn = self._turns.now
        return turn.launcher.health.state if turn is not None and turn.launcher.state.started else STANDBY

    @property
    def running(self) -> dict[str, Delivery]:
        return {
            name: delivery for launcher in self._turns.launchers for name, delivery in launcher.health.running.items()
        }

    def report(self) -> HealthReport:
        report = merged(self.state, self._turns.report())
        still_s = self._elector.still_s
        stale = f"{self._elector.name} stands still for {still_s:.0f} s" if still_s > STALE_AFTER_S else ""
        leads, standing = self._turns.now is not None, self._elector.standing
        leader = "" if standing.leader is None else standing.leader.identity
        term = TermReport(here=int(leads), epoch=self._elector.epoch, holder=leader)
        return {
            **report,
            "processes": 1,
            "stale": report["stale"] or stale,
            "terms": {self._config.partition: term},
        }
