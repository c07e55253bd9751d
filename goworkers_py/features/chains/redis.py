"""Chains in Redis, each a hash, see lua/fragments/chain.lua."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, Script, as_number, text
from goworkers_py.brokers.redis.driver.index import last_changed_first
from goworkers_py.brokers.redis.driver.replies import one_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.core.effect import KEPT_S
from goworkers_py.features.cancelling.redis import tombstone_of_many
from goworkers_py.features.chains.chain import MOST_AT_WORK, RETAIN_S, ChainStatus, JobAtWork, LinkJob, NewChain
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.chains.payload import at_work
from goworkers_py.features.chains.redis_part import LUA, V, chain_key, chain_place, chains_key

PAGE = 100
_STEP = Script(LUA / "step_chain.lua", one_of(int))
# Without the links, which may be many.
_FIELDS = ("v", "links", "link", "state", "at", "ended", "why", "jid", "class", "error", "since")


class RedisChains(Chains):
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def push(self, new: NewChain) -> bool:
        fields: list[Argument] = ["links", len(new.links), "retain", new.retain_s]
        if new.milliseconds:
            fields += ("ms", 1)
        for number, parts in enumerate(new.links, 1):
            if len(parts) > 1:
                fields += (f"parts:{number}", len(parts))
            for part, job in enumerate(parts, 1):
                fields += (f"link:{number}:{part}", job.payload + b"\n" + job.queue.encode())
        to = dict.fromkeys(job.queue for job in new.links[0])
        return self._step(new.cid, list(to), new.bid, "push", *fields)

    def cancel(self, cid: str) -> bool:
        return self._step(cid, (), "", "cancel", tombstone_of_many(cid), KEPT_S)

    def _step(self, cid: str, to: Sequence[str], bid: str, *arguments: Argument) -> bool:
        numbers: dict[str, int] = {}
        place = chain_place(cid, to, bid, self._keys, lambda key: numbers.setdefault(key, len(numbers) + 1))
        return bool(self._connections.script(_STEP, (self._keys.queues, *numbers), (*place, *arguments)))

    def status(self, cid: str) -> ChainStatus | None:
        status = self._read([cid])[0]
        return status if status is None or status.ended_at else replace(status, jobs=tuple(self._jobs(status)))

    def _jobs(self, status: ChainStatus) -> Iterator[JobAtWork]:
        key = chain_key(self._keys, status.cid)
        parts = range(1, 1 + int(self._connections.call("HGET", key, "parts") or 1))
        pages = (parts[start : start + PAGE] for start in range(0, len(parts), PAGE))
        waiting = (job for page in pages for job in self._waiting(key, status.link, page))
        for job in islice(waiting, MOST_AT_WORK):
            raw, _, queue = job.partition(b"\n")
            yield at_work(LinkJob(text(queue), raw))

    def _waiting(self, key: str, link: int, parts: Sequence[int]) -> list[bytes]:
        """The jobs of these parts that have not ended."""
        names = [f"link:{link}:{part}" for part in parts], [f"result:{part}" for part in parts]
        texts, results = self._connections.answers([("HMGET", key, *fields) for fields in names])
        return [job for job, result in zip(texts or (), results or (), strict=True) if job and result is None]

    def entries(self) -> Iterator[ChainStatus]:
        for cids in last_changed_first(self._connections, chains_key(self._keys)):
            yield from (status for status in self._read(cids) if status is not None)

    def idle(self, count: int) -> list[ChainStatus]:
        """The broker forgets those that have ended well before the others."""
        asked = "ZRANGEBYSCORE", chains_key(self._keys), machine.time() + RETAIN_S, "+inf", "LIMIT", 0, count
        return [status for status in self._read([*map(text, self._connections.call(*asked))]) if status is not None]

    def _read(self, cids: Sequence[str]) -> list[ChainStatus | None]:
        replies = self._connections.answers([("HMGET", chain_key(self._keys, cid), *_FIELDS) for cid in cids])
        return [_status(cid, reply or [None] * len(_FIELDS)) for cid, reply in zip(cids, replies, strict=True)]


def _status(cid: str, values: Sequence[bytes | None]) -> ChainStatus | None:
    v, links, link, state, at, ended, why, jid, job_class, error, since = (text(value or b"") for value in values)
    if v != V:
        return None
    ended_at = as_number(ended) or None
    job = why, jid, job_class, error
    return ChainStatus(
        cid, int(as_number(links)), int(as_number(link)), state, as_number(at), ended_at, *job, as_number(since)
    )
