"""The chain of a job in its payload: `{"pyworkers": {"v": 1, "needs": ["chain"], "chain": {"id": ..., "n": 1, ...}}}`.

id     of the chain
n      the number of the link, from 1 on
part   of a parallel link: the number of the part, from 1 on
to     the queues of the next link
gives  true: the next link wants the result
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.batches.payload import shown_class
from goworkers_py.features.chains.chain import GAP, MOST_PARTS, PREVIOUS, ChainLink, JobAtWork, LinkJob
from goworkers_py.wire import deep, payload
from goworkers_py.wire.needs import part_of

CHAIN = "chain"
# A result gets into the arguments of another job, which has levels of its own.
MOST_LEVELS = payload.MAX_NESTING // 2
# A number of a link beyond this is none.
MOST_LINKS = 1_000_000_000
# So many lists and dicts are around PREVIOUS in an argument. The job itself, its arguments and the list of the results
# of several parts are levels too.
MOST_AROUND = payload.MAX_NESTING - MOST_LEVELS - 3
# Characters of private use: no other text of a user is equal.
_TEXT = "\ue000pyworkers.PREVIOUS\ue001"
_PREVIOUS = payload.encode(_TEXT).encode()


def chain_field(link: ChainLink) -> dict[str, Any]:
    field: dict[str, Any] = {"id": link.cid, "n": link.number, "to": list(link.to)}
    if link.part > 1:
        field["part"] = link.part
    if link.gives:
        field["gives"] = True
    return {CHAIN: field}


def chain_of(fields: Mapping[str, Any]) -> ChainLink | None:
    """The link that a job with these fields is; None for a job in no chain, and for one that cannot be read."""
    chain = part_of(fields, CHAIN)
    if not isinstance(chain, dict):
        return None
    cid, to = chain.get("id"), chain.get("to", [])
    number, part = chain.get("n"), chain.get("part", 1)
    if not payload.is_name(cid) or not payload.are_names(to, MOST_PARTS):
        return None
    if type(number) is not int or type(part) is not int or not 1 <= number <= MOST_LINKS or not 1 <= part <= MOST_PARTS:
        return None
    return ChainLink(cid, number, part, tuple(to), chain.get("gives") is True)


def as_texts(value: Any, around: int = 0) -> Any:
    """An argument of a link with a text for each PREVIOUS."""
    if value is PREVIOUS:
        if around > MOST_AROUND:
            raise ArgumentError(
                f"PREVIOUS is nested deeper than {MOST_AROUND} levels: the result has levels of its own"
            )
        return _TEXT
    if type(value) is list and around <= payload.MAX_NESTING:  # what is deeper is refused later
        return [as_texts(element, around + 1) for element in value]
    if type(value) is dict and around <= payload.MAX_NESTING:
        return {key: as_texts(element, around + 1) for key, element in value.items()}
    return value


def has_previous(raw: bytes) -> bool:
    return _PREVIOUS in raw


def with_gaps(raw: bytes) -> bytes:
    return raw.replace(_PREVIOUS, GAP)


def at_work(job: LinkJob) -> JobAtWork:
    """A part of a link, as people see it."""
    fields = deep.fields_of(job.payload.replace(GAP, b"null"))
    return JobAtWork(payload.jid_of(fields), shown_class(fields), job.queue)


def given(result: object) -> object:
    """The result of a link as JSON takes it. Raises ArgumentError for what is no JSON."""
    result = list(result) if isinstance(result, tuple) else result
    payload.check_plain(result, "the result, which the next link of the chain gets,", MOST_LEVELS)
    return result
