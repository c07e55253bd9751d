"""How the queues share the threads of a process: in one fleet in several ways, in another one after each restart."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

QUEUES = ("short", "long", "mixed")
THREADS = 5  # for each queue

APART, STRICT, BY_WEIGHTS = "a pool for each queue", "a pool in strict order", "a pool by weights"
WEIGHTS = (6, 3, 1)


def configurations(seed: int, node: int) -> Iterator[tuple[str, str]]:
    """For each life of a node: a way, and the sections of the configuration file. No three nodes begin alike."""
    ways = random.Random(f"{seed}:pools").sample([APART, STRICT, BY_WEIGHTS], 3)
    dice = random.Random(f"{seed}:pools of node {node}")
    for number in itertools.count(node):
        way = ways[number % len(ways)]
        pooled = [] if way == APART else dice.sample(QUEUES, dice.choice([2, 3]))
        yield way, "\n".join([*_pool(way, pooled), *_apart(queue for queue in QUEUES if queue not in pooled)])


def _pool(way: str, queues: list[str]) -> Iterator[str]:
    if queues:
        yield f"[pool:several]\nqueues = {', '.join(queues)}\nconcurrency = {THREADS * len(queues)}"
        if way == BY_WEIGHTS:
            yield f"weights = {', '.join(map(str, WEIGHTS[: len(queues)]))}"


def _apart(queues: Iterator[str]) -> Iterator[str]:
    for queue in queues:
        yield f"[queue:{queue}]\nconcurrency = {THREADS}"
