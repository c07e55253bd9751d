"""Elections in the memory of this process: of several daemons in one program, one works."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.brokers.contracts.leadership import Leadership
from goworkers_py.brokers.memory.election_table import Election, election_of
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.election import Bid, Fence, Leader, News, Standing
from goworkers_py.core.errors import Fenced


class MemoryLeadership(Leadership):
    def __init__(self, state: State) -> None:
        self._state = state

    def look(self, election: str) -> Standing:
        with self._state.lock:
            one, now = election_of(self._state, election), self._state.clock()
            leader = None
            if one.until > now:
                leader = Leader(one.last, one.epoch, one.prefers, one.since, one.until - now, one.asked)
            return Standing(leader, one.epoch, one.last)

    def win(self, election: str, bid: Bid, lease_s: float) -> int:
        with self._state.lock:
            one, now = election_of(self._state, election), self._state.clock()
            if one.until > now:
                return one.epoch if one.token == bid.token else 0
            if one.last != bid.seen.last:
                return 0
            dead = self._state.leases.get(one.last) if one.last != bid.identity else None
            if dead is not None and dead.died_at is None:
                dead.died_at = now
            one.epoch, one.last = max(one.epoch, bid.epoch, bid.seen.epoch) + 1, bid.identity
            one.token, one.prefers, one.asked = bid.token, bid.prefers, ""
            one.since, one.until = now, now + lease_s
            return one.epoch

    def renew(self, election: str, fence: Fence, identity: str, lease_s: float) -> str:
        with self._state.lock:
            one = self._of_term(election, fence)
            if one is None:
                raise Fenced("another process leads by now, or the lease of this leader has ended")
            one.until = self._state.clock() + lease_s
            asked = one.asked
        self._tell(one, News("beat", fence.epoch, identity))
        return asked

    def resign(self, election: str, fence: Fence, identity: str, successor: str = "") -> bool:
        with self._state.lock:
            one = self._of_term(election, fence)
            if one is None:
                return False
            one.until, one.token, one.last = 0.0, "", ""
        self._tell(one, News("farewell", fence.epoch, identity, successor))
        return True

    def ask_to_step_down(self, election: str, epoch: int, by: str) -> bool:
        with self._state.lock:
            one = election_of(self._state, election)
            if one.until <= self._state.clock() or one.epoch != epoch:
                return False
            one.asked = by
        self._tell(one, News("step-down", epoch, "", by))
        return True

    def listen(self, election: str, heard: Callable[[News], None]) -> Callable[[], None]:
        with self._state.lock:
            one = election_of(self._state, election)
            one.heard.append(heard)
        heard(News())
        return lambda: self._forget(one, heard)

    def _forget(self, one: Election, heard: Callable[[News], None]) -> None:
        with self._state.lock:
            one.heard.remove(heard)

    def _tell(self, one: Election, news: News) -> None:
        with self._state.lock:
            listeners = list(one.heard)
        for heard in listeners:
            heard(news)

    def _of_term(self, election: str, fence: Fence) -> Election | None:
        """Under the lock."""
        one = election_of(self._state, election)
        return one if one.token == fence.token and one.until > self._state.clock() else None
