"""The effect of the end of a job on its chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.features.chains.chain import ChainLink


class EndLink(NamedTuple):
    """Ends a link of a chain, or a part of it. Well (`why` is empty): the next link is pushed, with `result` for it as
    JSON. Else the chain stops. `bid`: the batch that the next link joins."""

    jid: str
    link: ChainLink
    result: bytes = b""
    why: str = ""
    job_class: str = ""
    bid: str = ""
    error: str = ""  # of the job, if it has failed

    @property
    def kind(self) -> str:
        return "link"

    @property
    def size(self) -> int:
        return len(self.result)

    @property
    def repeatable(self) -> bool:
        return False
