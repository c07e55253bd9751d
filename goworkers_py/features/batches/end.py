"""The batch of a job counts the end of the job."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from goworkers_py.core.effect import Effect
from goworkers_py.core.job_state import StateWord
from goworkers_py.features.batches.batch import Way, line_of
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.batches.payload import BATCH, batch_of, buried, death_of, error_of, is_over
from goworkers_py.features.parts import Moves
from goworkers_py.policy.consequences import JobMove

_WAYS: dict[StateWord, Way] = {
    "completed": "succeeded", "dead": "failed", "cancelled": "cancelled", "expired": "expired",
}  # fmt: skip


def of_batch(fields: Mapping[str, Any], move: JobMove) -> Iterator[Effect]:
    member, way = batch_of(fields), _WAYS.get(move.state)
    if member is None or way is None:
        return
    if is_over(fields):  # its batch knows its death, and it was retried by hand
        if way == "succeeded":
            yield EndInBatch(move.jid, member, "revived")
        return
    death = death_of(fields, move.error or error_of(fields), move.now) if way == "failed" else b""
    yield EndInBatch(move.jid, member, way, death, move.discarded)


def _belongs_to(fields: Mapping[str, Any]) -> Collection[str]:
    """The batch and those around it."""
    member = batch_of(fields)
    return () if member is None else line_of(member.bid)


MOVES = Moves(followers={BATCH: of_batch}, buried=buried, belongs_to=_belongs_to)
