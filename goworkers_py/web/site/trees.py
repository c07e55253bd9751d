"""A JSON value as a tree that a page can show: cut where it is too deep or too long."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import simplejson

from goworkers_py.web.site.showing import cut

MOST_NODES, DEEPEST, LONGEST_TEXT = 300, 12, 400
_BITS_OF_A_DIGIT = 3.3219


@dataclass(slots=True)
class Node:
    name: str
    text: str  # of a list or an object, how long it is
    children: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Tree:
    nodes: Sequence[Node]
    cut: bool  # the value has more than is shown


class _Growth:
    def __init__(self) -> None:
        self.left = MOST_NODES
        self.cut = False

    def children(self, value: Any, depth: int) -> list[Node]:
        items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
        if depth > DEEPEST:
            self.cut = self.cut or bool(value)
            return []
        made = [self._node(str(name), one, depth) for name, one in itertools.islice(items, max(0, self.left))]
        self.cut = self.cut or len(made) < len(value)
        return made

    def _node(self, name: str, value: Any, depth: int) -> Node:
        self.left -= 1
        if isinstance(value, dict | list):
            size = f"{len(value):,} {'fields' if isinstance(value, dict) else 'items'}" if value else _empty(value)
            return Node(cut(name, LONGEST_TEXT), size, self.children(value, depth + 1))
        text = scalar(value)
        self.cut = self.cut or len(text) > LONGEST_TEXT
        return Node(cut(name, LONGEST_TEXT), cut(text, LONGEST_TEXT))


def _empty(value: Any) -> str:
    return "{}" if isinstance(value, dict) else "[]"


def scalar(value: Any) -> str:
    """As JSON. A number of more digits than Python writes is described."""
    try:
        told: str = simplejson.dumps(value, ensure_ascii=False, allow_nan=True, default=str)
    except ValueError:
        return f"(a number of about {int(value.bit_length() / _BITS_OF_A_DIGIT):,} digits)"
    return told


def tree(value: Any) -> Tree:
    """Of a list or an object its members; of any other value the value alone."""
    growth = _Growth()
    nodes = growth.children(value if isinstance(value, dict | list) else [value], 1)
    return Tree(nodes, growth.cut)
