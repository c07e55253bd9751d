"""The thread of a process with `standby` that does the work of each term: see `standby`.

Each term has a launcher of its own, with a broker behind the fence of the term. Both are built before the process bids,
so that the code is imported. The launcher is started when the process has won, and stopped when the term ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.open_broker import open_fenced
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.fence import Fence, Term, as_producer
from goworkers_py.core.values import dataclass
from goworkers_py.features.standby.election import LeaderChange, leader_handlers
from goworkers_py.features.standby.elector import Elector
from goworkers_py.features.standby.follower_report import FollowerReport
from goworkers_py.observe.health_report import HealthReport, merged, past
from goworkers_py.runtime.daemon import PartitionWork
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.service import Service

log = logging.getLogger(__name__)

LOOK_S = 1.0
AGAIN_S = 5.0  # after a launcher that could not be built


@dataclass(frozen=True)
class Turn:
    """A term before it is won, while it lasts, and at its end."""

    launcher: Launcher
    broker: Broker
    fence: Fence


class Turns(Service):
    def __init__(
        self, work: PartitionWork, elector: Elector, shown: FollowerReport, on_quiet_asked: Callable[[], None]
    ) -> None:
        super().__init__("standby")
        self._work = work
        self._config = work.plan.config
        self._handlers = leader_handlers(work.plan.registry)
        self._elector = elector
        self._shown = shown
        self._on_quiet_asked = on_quiet_asked
        elector.on_won = self.wake
        elector.on_lost = self._abandon
        elector.on_asked = self._step_down
        self._woken = machine.Event()
        self._end = machine.Event()  # the work of the term is to end. Set by any thread
        self.patiently = False  # set before `stop`, by the thread that stops the process
        # The rest is changed by this thread, in single steps, and read by any.
        self.next: Turn | None = None  # the turn that was built last
        self.now: Turn | None = None  # the turn whose term lasts
        self.clean = True
        self._earlier: list[Launcher] = []  # those whose workers still run jobs, and the last one
        self._past: list[HealthReport] = []  # one, of all earlier turns

    # --- the thread

    def run(self) -> None:
        while not self.stopping.is_set():
            turn = self._build()
            if turn is None:
                self.stopping.wait(AGAIN_S)
                continue
            self.next = turn
            self._elector.offer(turn.launcher.identity, turn.fence)
            self._follow(turn)
            if turn.fence.epoch:
                self._lead(turn)
            else:
                turn.broker.close()

    def _build(self) -> Turn | None:
        fence = Fence(self._config.partition_name, machine.token_hex(8))
        broker: Broker | None = None
        try:
            broker = open_fenced(self._config, fence)
            return Turn(self._work.make_launcher(broker, self._on_quiet_asked), broker, fence)
        except Exception:
            log.exception("cannot prepare to lead; next try in %.0f s", AGAIN_S)
            if broker is not None:
                broker.close()
            return None

    def _follow(self, turn: Turn) -> None:
        """Returns when the term is won, or the process stops. The elector may still wait for the broker's answer about
        the last term: it bids afterwards."""
        while not (turn.fence.epoch or self.stopping.is_set()):
            self._shown.show(turn.launcher.identity, str(self._elector), not self._elector.bids)
            self._woken.wait(LOOK_S)
            self._woken.clear()

    def _lead(self, turn: Turn) -> None:
        change = LeaderChange(True, turn.fence.epoch, self._config.partition)
        log.info("leader: %s leads now; epoch=%d", turn.launcher.identity, turn.fence.epoch)
        self._end.clear()
        self.now = turn
        self._work.begin_term(Term(turn.fence, turn.broker))
        try:
            self._tell(self._handlers.on_lead, change)
            if self.stopping.is_set() or not self._elector.bids:
                self._end.set()
            self._run_jobs(turn)
        finally:
            self._elector.finished(self._config.leader_lease)
            self._past = [merged("", [*self._past, past(turn.launcher.health.report())])]
            self._earlier = [launcher for launcher in self._earlier if launcher.workers_alive] + [turn.launcher]
            self.now = None
        with as_producer():
            self._tell(self._handlers.on_follow, change._replace(leads=False))

    def _run_jobs(self, turn: Turn) -> None:
        launcher, fence = turn.launcher, turn.fence
        try:
            if not launcher.start(self._end):
                turn.broker.close()
                return
        except Exception as error:
            if fence.holds:
                log.error("leader cannot work, and resigns: %s", error, exc_info=not isinstance(error, BrokerError))
                self.clean = False
            turn.broker.close()
            return
        while not self._end.is_set() and fence.holds:
            self._end.wait(min(LOOK_S, fence.left_s))
        if not fence.holds:
            launcher.abandon()
        clean = launcher.stop(self.patiently)
        self.clean = clean or not fence.holds  # another process has what was left behind

    def _tell(self, handlers: Sequence[Callable[[LeaderChange], object]], change: LeaderChange) -> None:
        for handler in handlers:
            try:
                handler(change)
            except BaseException:  # also SystemExit: the term goes on
                log.exception("handler %r of on_lead or on_follow failed", handler)

    # --- other threads

    def wake(self) -> None:
        self._woken.set()
        if self.stopping.is_set():
            self._end.set()

    def end_term(self) -> None:
        """The leader steps down when its jobs have ended."""
        self._end.set()

    def _abandon(self) -> None:
        """In the elector's thread. The launcher may be waiting for its last jobs, because the leader steps down."""
        if (turn := self.now) is not None:
            turn.launcher.abandon()

    def _step_down(self, by: str) -> None:
        """In the elector's thread, with each renewal."""
        if not self._end.is_set():
            log.info("stepping down: %s has asked for it; running jobs go on to their end", by)
            self._end.set()

    @property
    def launchers(self) -> list[Launcher]:
        """The launcher of the last turn, and the earlier ones that count."""
        last = self.next
        here = [] if last is None or last.launcher in self._earlier else [last.launcher]
        return [*self._earlier, *here]

    def report(self) -> list[HealthReport]:
        now = self.now
        return [*self._past, *([] if now is None else [now.launcher.health.report()])]
