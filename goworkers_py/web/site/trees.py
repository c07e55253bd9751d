"""A JSON value as a tree that a page can show: cut where it is too deep or too long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import islice
from typing import Any

import simplejson

from goworkers_py.core.values import dataclass
from goworkers_py.web.site.showing import cut, visible

MOST_NODES, MOST_MEMBERS, DEEPEST, LONGEST_TEXT = 1_000, 300, 12, 400
# Characters of all names and values together: a page has up to five bytes for one.
MOST_TEXT = 60_000
_BITS_OF_A_DIGIT = 3.3219


@dataclass(slots=True)
class Node:
    name: str
    text: str  # of a list or an object, how long it is
    children: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Tree:
    nodes: Sequence[Node]
    left_out: int  # values that are not shown
    cut: bool  # a text is not shown to its end


class _Growth:
    """Grows level by level, with some members of each value, so that a large one hides none beside it."""

    def __init__(self) -> None:
        self.nodes = MOST_NODES
        self.text = MOST_TEXT
        self.cut = False

    def grow(self, value: Any) -> list[Node]:
        root = Node("", "")
        waiting: deque[tuple[Node, Any, int]] = deque([(root, value, 1)])
        while waiting and self._has_room():
            parent, value, depth = waiting.popleft()
            for name, member in islice(_members(value), MOST_MEMBERS):
                if not self._has_room():
                    break
                node = self._node(str(name), member)
                parent.children.append(node)
                if depth < DEEPEST and isinstance(member, dict | list):
                    waiting.append((node, member, depth + 1))
        return root.children

    def _has_room(self) -> bool:
        return self.nodes > 0 and self.text > 0

    def _node(self, name: str, value: Any) -> Node:
        if isinstance(value, dict | list):
            text = f"{len(value):,} {'fields' if isinstance(value, dict) else 'items'}" if value else _empty(value)
        else:
            text = scalar(value)
        self.nodes -= 1
        return Node(self._cut(name), self._cut(text))

    def _cut(self, text: str) -> str:
        self.cut = self.cut or len(text) > LONGEST_TEXT
        shown = cut(text, LONGEST_TEXT)
        self.text -= len(visible(shown))
        return shown


def _members(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value)


def _count(value: Any) -> int:
    """Members, and theirs."""
    count, waiting = 0, [value]
    while waiting:
        members = waiting.pop()
        count += len(members)
        waiting += [member for _, member in _members(members) if member and isinstance(member, dict | list)]
    return count


def _empty(value: Any) -> str:
    return "{}" if isinstance(value, dict) else "[]"


def scalar(value: Any) -> str:
    """As JSON. A number of more digits than Python writes is described."""
    try:
        text: str = simplejson.dumps(value, ensure_ascii=False, allow_nan=True, default=str)
    except ValueError:
        return f"(a number of about {int(value.bit_length() / _BITS_OF_A_DIGIT):,} digits)"
    return text


def tree(value: Any) -> Tree:
    """Of a list or an object its members; of any other value the value alone."""
    growth, whole = _Growth(), value if isinstance(value, dict | list) else [value]
    nodes = growth.grow(whole)
    return Tree(nodes, _count(whole) - (MOST_NODES - growth.nodes), growth.cut)
