"""The chain of a job goes on, or stops, with the end of the job."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from goworkers_py.core.effect import Effect
from goworkers_py.core.job_state import ENDED
from goworkers_py.features.batches.payload import LONGEST_ERROR, batch_of, error_of, shown_class
from goworkers_py.features.chains.effects import EndLink
from goworkers_py.features.chains.payload import CHAIN, chain_of
from goworkers_py.features.parts import Moves
from goworkers_py.policy.consequences import JobMove
from goworkers_py.wire import payload


def of_chain(fields: Mapping[str, Any], move: JobMove) -> Iterator[Effect]:
    link = chain_of(fields)
    if link is None or move.state not in ENDED:
        return
    if move.state != "completed":
        why = "discarded" if move.discarded else move.state
        error = (move.error or error_of(fields))[:LONGEST_ERROR] if move.state == "dead" else ""
        yield EndLink(move.jid, link, why=why, job_class=shown_class(fields), error=error)
        return
    member, result = batch_of(fields), payload.encode(move.result).encode() if link.gives else b""
    yield EndLink(move.jid, link, result, bid="" if member is None else member.bid)


def _belongs_to(fields: Mapping[str, Any]) -> Collection[str]:
    link = chain_of(fields)
    return () if link is None else (link.cid,)


MOVES = Moves(followers={CHAIN: of_chain}, belongs_to=_belongs_to)
