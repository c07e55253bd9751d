"""Chains in the program that pushes them: `workers.chain(fetch.s(url), parse.s(workers.PREVIOUS)).enqueue()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from goworkers_py.api.job import Job, Signature
from goworkers_py.core.errors import ArgumentError, BatchEnded
from goworkers_py.core.push_blocks import holding
from goworkers_py.features.batches.joining import joining
from goworkers_py.features.batches.payload import BATCH, batch_field
from goworkers_py.features.chains.chain import MOST_PARTS, ChainLink, LinkJob, NewChain, new_cid
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.chains.payload import CHAIN, as_texts, chain_field, has_previous, with_gaps
from goworkers_py.wire.message import current_message

if TYPE_CHECKING:
    from goworkers_py.api.client import Client
    from goworkers_py.features.batches.batch import Membership


class Parallel:
    """The parts of one link, see `workers.parallel`."""

    def __init__(self, parts: Sequence[Signature]) -> None:
        self.parts = parts


class Chain:
    """Jobs that run one after the other, see `workers.chain`."""

    def __init__(self, client: Callable[[], Client], links: Sequence[Sequence[Signature]]) -> None:
        self._client = client
        self._links = links

    def enqueue(self) -> str:
        """Pushes the first link, and returns the id of the chain: `workers.chain(fetch.s(1)).enqueue()`. Inside of the
        block of a batch, each link joins the batch as it is pushed."""
        if holding() is not None:
            raise ArgumentError("a chain is not pushed inside of atomic: push it outside")
        client = self._client()
        chains = client.broker.require_part(Chains)
        for signature in (signature for link in self._links for signature in link):
            signature.job.check_home(client.home, "a chain")
        joined = joining(client.home, current_message())
        member = None if joined is None else joined.member
        cid = new_cid()
        bid = "" if member is None else member.bid
        new = NewChain(cid, self._written(cid, member), bid, milliseconds=client.milliseconds)
        if not chains.push(new):
            raise BatchEnded(bid)
        return cid

    def _written(self, cid: str, member: Membership | None) -> list[list[LinkJob]]:
        """From the last link to the first one: each has the queues of the next one in its payloads."""
        links: list[list[LinkJob]] = []
        to, gives = tuple[str, ...](), False
        for number in range(len(self._links), 0, -1):
            parts = [
                _written(signature, ChainLink(cid, number, part, to, gives), member)
                for part, signature in enumerate(self._links[number - 1], 1)
            ]
            links.append([LinkJob(queue, with_gaps(raw)) for queue, raw in parts])
            to, gives = tuple(dict.fromkeys(queue for queue, _ in parts)), any(has_previous(raw) for _, raw in parts)
        if gives:
            raise ArgumentError("the first link of a chain has no PREVIOUS: no link is before it")
        return links[::-1]


def _written(signature: Signature, link: ChainLink, member: Membership | None) -> tuple[str, bytes]:
    members, needs = chain_field(link), {CHAIN}
    if member is not None:
        members, needs = {**members, **batch_field(member)}, {CHAIN, BATCH}
    job = signature.job.write(
        signature.args, signature.kwargs, members, needs, is_later=link.number > 1, finish=as_texts
    )
    return job.queue, job.payload


def new_chain(client: Callable[[], Client], links: Sequence[Signature | Parallel]) -> Chain:
    if not links:
        raise ArgumentError("chain() without links: give `job.s(...)` for each")
    return Chain(client, [_parts(link) for link in links])


def parallel(parts: Sequence[Signature]) -> Parallel:
    if not 1 <= len(parts) <= MOST_PARTS:
        raise ArgumentError(f"parallel() takes 1 to {MOST_PARTS:,} parts, not {len(parts)}")
    return Parallel([part for link in parts for part in _parts(link)])


def _parts(link: Any) -> Sequence[Signature]:
    if isinstance(link, Parallel):
        return link.parts
    if isinstance(link, Signature):
        return [link]
    advice = f"write {link.name}.s(...)" if isinstance(link, Job) else "give `job.s(...)`"
    raise ArgumentError(f"a link of a chain is a job with its arguments, not {link!r}: {advice}")
