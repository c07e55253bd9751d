"""Elections in the memory of this process: of several daemons in one program, one works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from goworkers_py.brokers.memory.parts import MemoryPart
from goworkers_py.brokers.memory.state import FenceLease, State
from goworkers_py.core.errors import Fenced
from goworkers_py.core.fence import Fence
from goworkers_py.core.values import dataclass
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, Leader, News, Standing


@dataclass(slots=True)
class Election(FenceLease):
    """Used under the lock of the state."""

    epoch: int = 0
    last: str = ""  # the identity that won it, unless it has resigned
    prefers: bool = False
    since: float = 0.0
    asked: str = ""
    heard: list[Callable[[News], None]] = field(default_factory=list)


class ElectionTable(MemoryPart):
    """The elections, whose leases are those of fences."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self._fences = state.fences

    def of(self, name: str) -> Election:
        found = self._fences.setdefault(name, Election())
        assert isinstance(found, Election)
        return found


class MemoryLeadership(Leadership):
    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.part(ElectionTable)

    def look(self, election: str) -> Standing:
        with self._state.lock:
            record, now = self._table.of(election), self._state.clock()
            leader = None
            if record.until > now:
                leader = Leader(
                    record.last, record.epoch, record.prefers, record.since, record.until - now, record.asked
                )
            return Standing(leader, record.epoch, record.last)

    def win(self, election: str, bid: Bid, lease_s: float) -> int:
        with self._state.lock:
            record, now = self._table.of(election), self._state.clock()
            if record.until > now:
                return record.epoch if record.token == bid.token else 0
            if record.last != bid.seen.last:
                return 0
            dead = self._state.leases.get(record.last) if record.last != bid.identity else None
            if dead is not None and dead.died_at is None:
                dead.died_at = now
            record.epoch, record.last = max(record.epoch, bid.epoch, bid.seen.epoch) + 1, bid.identity
            record.token, record.prefers, record.asked = bid.token, bid.prefers, ""
            record.since, record.until = now, now + lease_s
            return record.epoch

    def renew(self, election: str, fence: Fence, identity: str, lease_s: float) -> str:
        with self._state.lock:
            record = self._of_term(election, fence)
            if record is None:
                raise Fenced("another process leads by now, or the lease of this leader has ended")
            record.until = self._state.clock() + lease_s
            asked = record.asked
        self._tell(record, News("beat", fence.epoch, identity))
        return asked

    def resign(self, election: str, fence: Fence, identity: str, successor: str = "") -> bool:
        with self._state.lock:
            record = self._of_term(election, fence)
            if record is None:
                return False
            record.until, record.token, record.last = 0.0, "", ""
        self._tell(record, News("farewell", fence.epoch, identity, successor))
        return True

    def ask_to_step_down(self, election: str, epoch: int, by: str) -> bool:
        with self._state.lock:
            record = self._table.of(election)
            if record.until <= self._state.clock() or record.epoch != epoch:
                return False
            record.asked = by
        self._tell(record, News("step-down", epoch, "", by))
        return True

    def listen(self, election: str, heard: Callable[[News], None]) -> Callable[[], None]:
        with self._state.lock:
            record = self._table.of(election)
            record.heard.append(heard)
        heard(News())
        return lambda: self._forget(record, heard)

    def _forget(self, record: Election, heard: Callable[[News], None]) -> None:
        with self._state.lock:
            record.heard.remove(heard)

    def _tell(self, record: Election, news: News) -> None:
        with self._state.lock:
            listeners = list(record.heard)
        for heard in listeners:
            heard(news)

    def _of_term(self, election: str, fence: Fence) -> Election | None:
        """Under the lock."""
        record = self._table.of(election)
        return record if record.token == fence.token and record.until > self._state.clock() else None
