"""A value of JSON as a tree that can be read, bounded however large the value is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import simplejson

from goworkers_py.web.site.showing import cut

MOST_NODES, DEEPEST, LONGEST = 300, 12, 2_000


@dataclass(frozen=True, slots=True)
class Node:
    name: str  # of a field, or the place in a list; empty at the top
    text: str  # of a value without parts
    parts: Sequence[Node] = ()
    kind: str = ""  # "list" or "object"
    left_out: int = 0  # parts that are not shown


class _Budget:
    def __init__(self) -> None:
        self.nodes = MOST_NODES


def tree_of(value: Any) -> Node:
    return _node("", value, 0, _Budget())


def _node(name: str, value: Any, depth: int, budget: _Budget) -> Node:
    budget.nodes -= 1
    if isinstance(value, dict):
        return _with_parts(name, [(str(key), one) for key, one in value.items()], "object", depth, budget)
    if isinstance(value, list):
        return _with_parts(name, [(str(place), one) for place, one in enumerate(value)], "list", depth, budget)
    return Node(name, cut(_text(value), LONGEST))


def _with_parts(name: str, parts: Sequence[tuple[str, Any]], kind: str, depth: int, budget: _Budget) -> Node:
    shown = list(_shown(parts, depth, budget)) if depth < DEEPEST else []
    return Node(name, "", shown, kind, len(parts) - len(shown))


def _shown(parts: Iterable[tuple[str, Any]], depth: int, budget: _Budget) -> Iterable[Node]:
    for name, one in parts:
        if budget.nodes <= 0:
            return
        yield _node(cut(name, 200), one, depth + 1, budget)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else simplejson.dumps(value)
