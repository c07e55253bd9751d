"""The chains in the state of a memory broker, and the verbs of `features.chains.contract` on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import islice

from goworkers_py.brokers.memory.parts import MemoryPart
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.effect import KEPT_S
from goworkers_py.core.values import dataclass
from goworkers_py.features.batches.memory import BatchTable
from goworkers_py.features.cancelling.memory import TombstoneTable
from goworkers_py.features.chains.chain import GAP, MOST_AT_WORK, ChainStatus, NewChain
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.chains.effects import EndLink
from goworkers_py.features.chains.payload import at_work
from goworkers_py.wire import payload

NOT_STOPPED = "", "", "", ""


@dataclass(slots=True)
class _Chain:
    new: NewChain
    at: float
    expires_at: float
    link: int = 0
    state: str = "running"
    ended_at: float | None = None
    since: float = 0.0
    stopped: tuple[str, str, str, str] = NOT_STOPPED  # why, jid, class, error
    results: dict[int, bytes] = field(default_factory=dict)  # of the parts of the link that have ended well
    met: int = 0  # jobs of a cancelled chain that have ended

    @property
    def parts(self) -> int:
        return len(self.new.links[self.link - 1])


class ChainTable(MemoryPart):
    """Used under the lock of the state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._chains: dict[str, _Chain] = {}
        self.effects = {EndLink: self._end_link}

    @property
    def _batches(self) -> BatchTable:
        return self._state.part(BatchTable)

    def push(self, new: NewChain) -> bool:
        now = self._state.clock()
        if self.get(new.cid) is not None:
            return True
        if new.bid and not self._batches.takes(new.bid, 0):
            return False
        self._chains = {cid: chain for cid, chain in self._chains.items() if chain.expires_at > now}
        self._chains[new.cid] = chain = _Chain(new, now, now + KEPT_S)
        self._begin_link(chain, b"")
        return True

    def cancel(self, cid: str) -> bool:
        chain = self.get(cid)
        if chain is None or chain.state in ("ended", "cancelled"):
            return False
        chain.state, chain.ended_at, chain.expires_at = "cancelled", self._state.clock(), self._state.clock() + KEPT_S
        chain.met = len(chain.results)
        self._state.part(TombstoneTable).lay(cid, retry=False, many=True)
        return True

    def _end_link(self, end: EndLink) -> None:
        chain, link = self.get(end.link.cid), end.link
        if chain is None or chain.link != link.number or chain.state == "ended":
            return
        chain.expires_at = self._state.clock() + KEPT_S
        if chain.state == "cancelled":
            chain.met += 1
            if chain.met == chain.parts:
                self._state.part(TombstoneTable).remove(link.cid)
        elif end.why:
            chain.state, chain.stopped = "stopped", (end.why, end.jid, end.job_class, end.error)
        elif link.part not in chain.results:
            chain.results[link.part] = end.result
            if len(chain.results) == chain.parts:
                self._go_on(chain, end)

    def _go_on(self, chain: _Chain, end: EndLink) -> None:
        results = [chain.results[part] for part in sorted(chain.results)]
        if chain.link == len(chain.new.links):
            chain.state, chain.stopped, chain.ended_at = "ended", NOT_STOPPED, self._state.clock()
            chain.expires_at = self._state.clock() + max(1, chain.new.retain_s)
        elif chain.new.bid and self._batches.is_stopped(chain.new.bid):
            chain.results.popitem()
            chain.state, chain.stopped = "stopped", ("batch", end.jid, end.job_class, "")
        else:
            self._begin_link(chain, results[0] if chain.parts == 1 else b"[" + b",".join(results) + b"]")

    def _begin_link(self, chain: _Chain, result: bytes) -> None:
        chain.link += 1
        chain.state, chain.stopped, chain.results = "running", NOT_STOPPED, {}
        chain.since = now = self._state.clock()
        new = chain.new
        stamp = {"enqueued_at": int(now * 1000) if new.milliseconds else now}
        for job in new.links[chain.link - 1]:
            written = payload.splice(job.payload.replace(GAP, result), stamp)
            number = self._state.put(job.queue, written)
            if new.bid and self._batches.is_open(new.bid):
                self._batches.join(new.bid, number)

    def get(self, cid: str) -> _Chain | None:
        chain = self._chains.get(cid)
        return chain if chain is not None and chain.expires_at > self._state.clock() else None

    def status(self, cid: str) -> ChainStatus | None:
        chain = self.get(cid)
        if chain is None:
            return None
        links = chain.new.links
        waiting = (
            ()
            if chain.ended_at
            else (job for part, job in enumerate(links[chain.link - 1], 1) if part not in chain.results)
        )
        known = chain.link, chain.state, chain.at, chain.ended_at, *chain.stopped, chain.since
        return ChainStatus(cid, len(links), *known, tuple(map(at_work, islice(waiting, MOST_AT_WORK))))

    def entries(self) -> list[ChainStatus]:
        cids = sorted(self._chains, key=lambda cid: self._chains[cid].expires_at, reverse=True)
        return [status for cid in cids if (status := self.status(cid)) is not None]


class MemoryChains(Chains):
    def __init__(self, state: State) -> None:
        self._table = state.part(ChainTable)
        self._lock = state.lock

    def push(self, new: NewChain) -> bool:
        with self._lock:
            return self._table.push(new)

    def cancel(self, cid: str) -> bool:
        with self._lock:
            return self._table.cancel(cid)

    def status(self, cid: str) -> ChainStatus | None:
        with self._lock:
            return self._table.status(cid)

    def entries(self) -> Iterator[ChainStatus]:
        with self._lock:
            return iter(self._table.entries())
