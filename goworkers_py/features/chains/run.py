"""The runs of links: the next link may want the result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from goworkers_py.core.outcome import Outcome
from goworkers_py.features.chains.payload import CHAIN, chain_of, given
from goworkers_py.features.in_process import InProcess
from goworkers_py.links.chain import Run
from goworkers_py.runtime.running.rungs import Rung
from goworkers_py.wire.message import Message


class ChainRuns(InProcess):
    def markers(self) -> Mapping[str, Callable[[Message], Collection[str]]]:
        return {CHAIN: lambda message: (CHAIN,)}

    def rungs(self) -> Mapping[str, Rung]:
        return {"chain": Rung(_run, frozenset((CHAIN,)))}


def _run(run: Run, message: Message) -> Outcome:
    link = chain_of(message.fields)
    if link is not None and link.gives:
        message.as_result = given
    return run(message)
