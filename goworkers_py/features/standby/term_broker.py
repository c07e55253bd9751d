"""The brokers of a process that leads: the server refuses pushes when the term is over.

A job pushes in the term in which it was begun, and so does a thread that has the context of the job. A thread without
it, of a pool say, may have been started by a job, too. So in a process whose program is the daemon, each push of such a
thread is in the term that the process leads, or led last. Before its first term there was no job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.brokers.broker import Broker
from goworkers_py.features.standby.election import Term, pushes_as_producer
from goworkers_py.wire.message import current_message

if TYPE_CHECKING:
    from goworkers_py.config.options import Config


def broker_now(config: Config, plain: Broker) -> Broker:
    """`plain` for code that is no job of this term, such as that of a program in which the daemon runs."""
    message = current_message()
    term: Term | None = None if message is None else getattr(message, "term", None)
    if term is None or term.fence.election != config.election or not isinstance(term.broker, Broker):
        return plain
    return term.broker


def broker_of_pushes(term: Term | None, now: Broker) -> Broker:
    """`term` is that of the process, `now` the broker of `broker_now`."""
    if term is None or not isinstance(term.broker, Broker) or current_message() is not None or pushes_as_producer.get():
        return now
    return term.broker
