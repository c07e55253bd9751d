"""The link that tells a job in which term it runs. It is in the chain of a process behind a fence only."""

from __future__ import annotations

from goworkers_py.core.fence import Term
from goworkers_py.core.outcome import Outcome
from goworkers_py.links.chain import Run, Wrap
from goworkers_py.wire.message import Message


def in_term(term: Term) -> Wrap:
    def wrap(inner: Run) -> Run:
        def run(message: Message) -> Outcome:
            message.term = term
            return inner(message)

        return run

    return wrap
