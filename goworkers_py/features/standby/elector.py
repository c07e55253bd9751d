"""The elector thread of a process with `standby`: looks at the lease of the leader, bids when there is none, and renews
the lease of its own term.

A leader is missed in two ways: its lease, by the broker's clock, and its beats on the channel. The end of the lease
alone lets another process win; silence on the channel only warns. A lease of minutes, after the broker's clock was set
back, is shortened. A farewell on the channel wakes the elector at once.

It is one of these at a time, and its own thread alone goes from one to the next:

    follow    somebody else leads, or nobody: it looks, and bids
    lead      its lease is renewed at a third of its life. The term ends when a renewal is refused, or when `Fence` says
              that the lease was not renewed in time: this process cannot tell then whether another one leads
    resign    the work of the term has ended, see `finished`: it tells a farewell

It lives while the launcher of a term starts, works and stops, in another thread, see `standby`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from goworkers_py.config.options import Config
from goworkers_py.core import machine
from goworkers_py.core.errors import Fenced
from goworkers_py.core.fence import Fence
from goworkers_py.core.identity import is_identity
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, Leader, News, Standing
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

log = logging.getLogger(__name__)

RENEWALS = 3  # in the life of a lease
# By its own clock a leader stops this much of its lease before the end: clocks do not run at quite the same speed.
MARGIN = 0.1
# After a farewell that names a successor the others wait for so long.
YIELD_S = 0.2
# For so many leases a process whose term has ended lets the others go first: it bids when there was no leader for
# LATE_S. And one that prefers to lead asks at most once in this time.
COOL_DOWN_LEASES = 2
LATE_S = 0.3
# A lease that lasts so much longer than leases of its leader do was given before the server's clock was set back.
SLACK_S = 0.5


class Elector(BrokerService):
    """Any thread may call the methods without an underscore."""

    def __init__(self, leadership: Leadership, config: Config, outage: Outage) -> None:
        super().__init__("elector", outage)
        self._leadership = leadership
        self._election = config.partition_name
        self._lease_s = config.leader_lease
        self._prefers = config.prefer_leader
        self._every_s = config.leader_lease / RENEWALS
        self.on_won: Callable[[], None] = lambda: None  # called by this thread
        self.on_lost: Callable[[], None] = lambda: None  # called by this thread: the term is over before its end
        self.on_asked: Callable[[str], None] = lambda by: None  # called by this thread: to step down
        self._asked = machine.Event()
        # The identity and the fence with which it bids, or leads; None when the work of its term has ended. Replaced in
        # single steps by the thread of the terms, which may do so while this thread is still in the term before.
        self._candidate: tuple[str, Fence] | None = None
        # The candidate that has won, while its term lasts; changed by this thread, as the next one.
        self._term: tuple[str, Fence] | None = None
        self._resigned = machine.Event()  # the last term has ended
        self.bids = True  # cleared once, when the process is quiet or stops
        # Monotonic times. The listener's thread sets the first two.
        self._yield_until = self._heard_at = 0.0
        self._cool_until = 0.0
        self._without_leader_since = 0.0  # 0: there is one, as far as it knows
        self._steady_since = machine.monotonic()
        self._asked_at = float("-inf")
        self._warned_of = 0  # the epoch of a leader that was told to be silent
        self.standing = Standing(None, 0, "")  # the last look; replaced by this thread
        self.epoch = 0  # the highest one that was seen

    def __str__(self) -> str:
        """For people: for whom this process stands by."""
        leader = self.standing.leader
        return f"standby of {leader.identity}, epoch {leader.epoch}" if leader else "standby, no leader yet"

    # --- the thread

    def run(self) -> None:
        listens: Callable[[], None] | None = None
        try:
            listens = self._leadership.listen(self._election, self._hear)
            super().run()
        finally:
            if listens is not None:
                listens()

    def run_once(self) -> float:
        self._asked.clear()
        if self._term is None:
            return self._follow()
        if self._term is not self._candidate:
            return self._resign(*self._term)
        return self._renew(*self._term)

    def wait_between(self, seconds: float) -> None:
        self._asked.wait(min(seconds, self._every_s))

    def wake(self) -> None:
        self._asked.set()

    def after_failure(self) -> None:
        self._steady_since = machine.monotonic()
        if self._term is not None and not self._term[1].holds:
            self._lose(*self._term, "its lease could not be renewed in time")

    # --- follow

    def _follow(self) -> float:
        asked_at, standing = machine.awake_and_asleep(), self._leadership.look(self._election)
        self.standing, self.epoch = standing, max(self.epoch, standing.epoch)
        candidate = self._bidder()
        if candidate is not None and standing.leader is not None and standing.leader.identity == candidate[0]:
            return self._bid(candidate, standing, asked_at)  # it has won, and the reply was lost: it gets it again
        if standing.leader is not None:
            self._without_leader_since = 0.0
            if standing.leader.left_s > standing.leader.life_s + SLACK_S:
                self._shorten(standing.leader)
            self._watch(standing.leader, candidate)
            # Not all bidders at once.
            return min(self._every_s, standing.leader.left_s + machine.random.uniform(0.005, 0.03))
        now = machine.monotonic()
        self._without_leader_since = self._without_leader_since or now
        late_s = LATE_S if now < self._cool_until else 0.0
        wait_s = max(self._without_leader_since + late_s, self._yield_until) - now
        if wait_s > 0:
            return max(0.01, wait_s)
        if candidate is None or not self.bids:
            return self._every_s
        return self._bid(candidate, standing, asked_at)

    def _bidder(self) -> tuple[str, Fence] | None:
        """The candidate, unless its term was lost: its work ends then, in the thread of the terms."""
        candidate = self._candidate
        return None if candidate is None or candidate[1].fallen else candidate

    def _bid(self, candidate: tuple[str, Fence], standing: Standing, asked_at: float) -> float:
        identity, fence = candidate
        bid = Bid(identity, fence.token, self._prefers, standing, self.epoch)
        epoch = self._leadership.win(self._election, bid, self._lease_s)
        if not epoch:
            return 0.0
        self._resigned.clear()  # before the thread of the terms sees the epoch, and waits for the end
        fence.epoch = self.epoch = epoch
        left_s = self._lease_s if standing.leader is None else min(self._lease_s, standing.leader.left_s)
        fence.hold(asked_at + left_s - self._lease_s * MARGIN)
        fence.on_fall = self.wake
        self.standing = Standing(Leader(identity, epoch, self._prefers, machine.time(), self._lease_s), epoch, identity)
        self._term = candidate
        self.on_won()
        return 0.0  # the first renewal tells the others

    def _shorten(self, leader: Leader) -> None:
        if self._leadership.shorten(self._election, leader.epoch):
            log.warning(
                "the lease of leader %s would last for %.1f s, and its leases last for %.1f s: the clock of the server "
                "was set back. Shortened it; a leader that lives renews it",
                leader.identity, leader.left_s, leader.life_s,
            )  # fmt: skip

    def _watch(self, leader: Leader, candidate: tuple[str, Fence] | None) -> None:
        now = machine.monotonic()
        silent_s = now - max(self._heard_at, self._steady_since)
        if silent_s > 2 * self._every_s and leader.left_s < self._every_s and self._warned_of != leader.epoch:
            self._warned_of = leader.epoch
            log.warning(
                "leader %s is silent since %.1f s, and has not renewed its lease: another process takes over in %.1f s",
                leader.identity, silent_s, leader.left_s,
            )  # fmt: skip
        cool_down_s = COOL_DOWN_LEASES * self._lease_s
        wants = self._prefers and not leader.prefers and self.bids
        if wants and candidate and min(now - self._steady_since, now - self._asked_at) >= cool_down_s:
            self._asked_at = now
            log.info("asking leader %s to step down, because prefer_leader is set here", leader.identity)
            self._leadership.ask_to_step_down(self._election, leader.epoch, candidate[0])

    # --- lead

    def _renew(self, identity: str, fence: Fence) -> float:
        if not fence.holds:
            self._lose(identity, fence, fence.fallen or "its lease was not renewed in time: was this process paused?")
            return 0.0
        asked_at = machine.awake_and_asleep()
        try:
            asked = self._leadership.renew(self._election, fence, identity, self._lease_s)
        except Fenced as error:
            self._lose(identity, fence, str(error))
            return 0.0
        fence.hold(asked_at + self._lease_s * (1 - MARGIN))
        if asked:
            self.on_asked(asked)
        return self._every_s

    def _lose(self, identity: str, fence: Fence, why: str) -> None:
        self._end_term()
        fence.fall(why)  # first: a log filter of the user's may raise
        log.error(
            "leader no more: %s; the jobs of %s are given to the next leader; epoch=%d", why, identity, fence.epoch
        )
        self.on_lost()

    def _resign(self, identity: str, fence: Fence) -> float:
        asked = self._leadership.look(self._election).leader
        successor = asked.asked if asked is not None and is_identity(asked.asked) else ""
        self._leadership.resign(self._election, fence, identity, successor)
        self._end_term()
        log.info("leader no more: %s has resigned; epoch=%d", identity, fence.epoch)
        fence.fall("this leader has resigned")
        return 0.0

    def _end_term(self) -> None:
        self._term = None
        self._steady_since = machine.monotonic()
        self._cool_until = self._steady_since + COOL_DOWN_LEASES * self._lease_s
        self._without_leader_since = 0.0
        self._resigned.set()

    # --- other threads

    def offer(self, identity: str, fence: Fence) -> None:
        """This process is ready to lead: from now on it bids."""
        self._candidate = identity, fence
        self.wake()

    def withdraw(self) -> None:
        """It bids no more: the process is quiet, or stops. A term goes on."""
        self.bids = False

    @property
    def leads(self) -> bool:
        return self._term is not None

    def finished(self, timeout_s: float) -> None:
        """The work of the term has ended: resigns, if it was not lost, and waits until that is done. Where the broker
        does not answer for so long, the elector resigns later, and then bids with what was offered meanwhile."""
        self._candidate = None
        self.wake()
        self._resigned.wait(timeout_s)

    def _hear(self, news: News) -> None:
        """In the listener's thread."""
        now = machine.monotonic()
        if news.what == "beat":
            self._heard_at, self.epoch = now, max(self.epoch, news.epoch)
            return
        candidate = self._candidate
        if news.what == "farewell" and news.successor and (candidate is None or news.successor != candidate[0]):
            self._yield_until = now + YIELD_S
        self.wake()
