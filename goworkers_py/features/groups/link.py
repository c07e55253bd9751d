"""The link around the function that aggregates a set of members: its end is that of the members.

The pushes of the function are held back, see `atomic`; that of the job which runs in the members' place is one of them.
They happen in the step in which the set is deleted.
"""

from __future__ import annotations

from dataclasses import replace

from goworkers_py.core.outcome import Done, Outcome
from goworkers_py.features.groups.aggregates import NAME
from goworkers_py.features.groups.end import end_of_set
from goworkers_py.features.groups.payload import group_of
from goworkers_py.links.chain import Run
from goworkers_py.wire.message import Message


def aggregate(inner: Run) -> Run:
    def run(message: Message) -> Outcome:
        outcome = inner(message)
        found = group_of(message.fields, message.queue)
        if not isinstance(outcome, Done) or found is None:
            return outcome
        members = message.delivery.of_features.get(NAME, ())
        end = end_of_set(found.group, members, outcome.effects, message.jid)
        return replace(outcome, effects=(end,))

    return run
