"""The broker for the pushes of a job that runs in a term of a leader: the server refuses them when the term is over.

A thread that the job starts has the term only with the context of the job: `contextvars.copy_context().run(...)`.
"""

from __future__ import annotations

from goworkers_py.brokers.broker import Broker
from goworkers_py.config.options import Config
from goworkers_py.core.election import Term
from goworkers_py.wire.message import current_message


def broker_now(config: Config, plain: Broker) -> Broker:
    """`plain` for code that is no job of this term, such as that of a program in which the daemon runs."""
    message = current_message()
    term: Term | None = None if message is None else getattr(message, "term", None)
    if term is None or term.fence.election != config.election or not isinstance(term.broker, Broker):
        return plain
    return term.broker
