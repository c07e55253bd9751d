"""Elections: of several processes one leads at a time. The leader has a lease, and its term has an epoch.

A leader renews its lease long before the lease ends. When it ends, by the broker's clock, anybody may win. A win, a
renewal and a resignation are one step each, so a process that is killed between two steps leaves an election that goes
on: without a leader, or with one whose lease ends soon.

A term is fenced: a broker that was opened with the fence of a term (`Broker.open_fenced`) writes only while the lease
of that term is there. The broker compares the token of the term in the step of each write, and raises Fenced. So a
leader that was paused for longer than its lease changes nothing when it goes on.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from goworkers_py.core.fence import Fence
from goworkers_py.features.standby.election import Bid, News, Standing


class Leadership(Protocol):
    """Threads share it."""

    def look(self, election: str) -> Standing:
        """Changes nothing."""

    def win(self, election: str, bid: Bid, lease_s: float) -> int:
        """Begins a term, if no lease is there: returns its epoch. 0: another process leads, or has won since the bidder
        looked.

        In the same step the last leader's identity (`Standing.last`) is declared dead, unless it has resigned: so its
        jobs are recovered at once. The epoch is higher than every one before, and than `Bid.epoch`: a broker that was
        restored from a copy does not repeat one. A bid with the token of the present leader returns its epoch, because
        the reply to its first bid may have been lost.
        """

    def renew(self, election: str, fence: Fence, identity: str, lease_s: float) -> str:
        """Renews the lease, and tells a beat on the channel. Returns who has asked the leader to step down, or nothing.
        Raises Fenced when the lease is not that of this term."""

    def resign(self, election: str, fence: Fence, identity: str, successor: str = "") -> bool:
        """Ends the term, and tells a farewell on the channel. False when it was over."""

    def ask_to_step_down(self, election: str, epoch: int, by: str) -> bool:
        """Asks the leader of this epoch to end its term. False when another one leads by now."""

    def shorten(self, election: str, epoch: int) -> bool:
        """Gives the lease of the leader of this epoch its usual life, where it lasts longer: the clock of the broker
        was set back. A broker whose clock is never set back need not have this."""
        return False

    def listen(self, election: str, heard: Callable[[News], None]) -> Callable[[], None]:
        """`heard` is called for each message on the channel, in another thread; it must not block. Messages may get
        lost. Returns the function that ends it."""
