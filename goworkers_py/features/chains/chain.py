"""A chain of jobs, as a broker keeps it and as people see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from goworkers_py.core import machine
from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.wire.containers import Placeholder

# In the payload of a link as a broker keeps it, this stands for the result of the link before. It is in no JSON.
GAP: Final = b"\x01"
MOST_PARTS = 1_000
MOST_AT_WORK = 10


class Previous(Placeholder):
    """Stands in the arguments of a link for the result of the link before."""

    def __repr__(self) -> str:
        return "workers.PREVIOUS"


PREVIOUS: Any = Previous()

# A chain that has ended is forgotten after so long; one of which nothing is heard after KEPT_S.
RETAIN_S = 86_400


def new_cid() -> str:
    return machine.token_hex(8)


class ChainLink(NamedTuple):
    """A job is this link of a chain, or a part of it."""

    cid: str
    number: int  # from 1 on
    part: int = 1
    to: tuple[str, ...] = ()  # the queues of the next link
    gives: bool = False  # the next link wants its result


class LinkJob(NamedTuple):
    """A part of a link. Its payload is complete but for `enqueued_at`, and has GAPs for the result before."""

    queue: str
    payload: bytes


class JobAtWork(NamedTuple):
    """A job of the link that waits or runs, or has stopped the chain."""

    jid: str
    job_class: str
    queue: str


@dataclass(frozen=True, slots=True)
class NewChain:
    cid: str
    links: Sequence[Sequence[LinkJob]]
    bid: str = ""  # the batch that each link joins
    retain_s: int = RETAIN_S
    milliseconds: bool = False


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """A chain, as people see it."""

    cid: str
    links: int = 0
    link: int = 0  # the one that waits or runs, or has stopped the chain; from 1 on
    state: str = ""  # "running", "stopped", "cancelled" or "ended"
    at: float = 0.0  # when it was pushed
    ended_at: float | None = None
    # Of the job that has stopped the chain: how it has ended, its jid, its class and its error. Its retry by hand
    # goes on.
    why: str = ""
    jid: str = ""
    job_class: str = ""
    error: str = ""
    since: float = 0.0  # when the link was pushed
    # Of the link, without the parts that have ended well, at most MOST_AT_WORK. Not told of each chain in a list.
    jobs: tuple[JobAtWork, ...] = ()


@dataclass(frozen=True)
class ChainFigures:
    """The fields of `Stats` that are of chains."""

    chains: int = 0  # that run
    oldest_link_s: int = 0  # since the link was pushed that is at work for the longest time
    stopped_chains: int = 0
