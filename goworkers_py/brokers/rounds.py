"""Asks of several queues, for a broker that has each queue in several places."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.policy.priorities import Ask


def rounds(asks: Sequence[Ask]) -> list[Sequence[Ask]]:
    """The asks of each round, which name all queues of the pool. In strict order, one queue is asked for in a round: a
    job of a lower queue in one place does not go before those of a higher queue in another."""
    queues = [queue for queue, most in asks if most > 0]
    if len(queues) < 2 or len(set(queues)) < len(queues):
        return [asks]
    return [[(other, most if other == queue else 0) for other, most in asks] for queue in queues]
