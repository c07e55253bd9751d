"""Composes the scripts of Lua from files. A server runs a script from its first line on each call, and takes as long as
there are functions to make. So a script has only the fragments that its call needs.

A script is a file in a folder `lua`. A fragment is a file in the folder `fragments` in it: an engine step, or what
handles the words of a feature. A fragment returns one table of functions (or one function, or a value), and uses no
name but those of Lua and of the server, and those that it is given. Both say in one line of code what they are given:

    local key_at, now, KEPT_S = ...

The lines of a script before that line are its head, whose locals may be given too. Each other name is

- a table for the words that the call needs, made of the fragments that handle them: `ties` of pushes and their
  `checks`, `handlers` of effects, `row_handlers` of rows, and `finishers`, the last step of those of these fragments
  that have one;
- a constant of a part, which Python knows;
- another fragment, which comes before this one, and is made once in a script; `make_NAME` is a function that makes it:
  for what few calls need.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from goworkers_py.brokers.redis.parts import parts

_GIVEN = re.compile(r"^local ([\w, ]+) = \.\.\.\n", re.MULTILINE)
_LOCALS = re.compile(r"^local (?:function )?(\w+(?:, \w+)*)", re.MULTILINE)
_RETURN = re.compile(r"^return ", re.MULTILINE)
FRAGMENTS = "fragments"


@cache
def fragments() -> dict[str, Path]:
    """Each fragment by its name, which is that of its file."""
    return {path.stem: path for part in parts() for path in sorted((part.lua / FRAGMENTS).glob("*.lua"))}


@cache
def scripts() -> list[Path]:
    return [path for part in parts() for path in sorted(part.lua.glob("*.lua"))]


def source_of(path: Path) -> str:
    return path.read_text("utf-8")


def split(source: str) -> tuple[str, list[str], str]:
    """What stands before the line that says what is given, the names in that line, and what stands behind it."""
    found = _GIVEN.search(source)
    if found is None:
        return "", [], source
    return source[: found.start()], found[1].split(", "), source[found.end() :]


class Composition:
    """One script. `words` are those of ties, effects and rows that it is to know; None: all."""

    def __init__(self, words: Collection[str] | None = None) -> None:
        self._words = words
        self._known: dict[str, str] = {}  # each name that was given, with the expression for it
        self._made: list[str] = []

    def compose(self, path: Path) -> str:
        head, given, body = split(source_of(path))
        for names in _LOCALS.findall(head):
            self._known |= {name: name for name in names.split(", ")}
        for name in given:
            if self._expression(name, path) != name:
                self._made.append(f"local {name} = {self._known[name]}\n")
        return f"{head}{''.join(self._made)}{body}"

    def _expression(self, name: str, path: Path) -> str:
        if name not in self._known:
            self._known[name] = self._found(name, path)
        return self._known[name]

    def _found(self, name: str, path: Path) -> str:
        tables = {
            "ties": self._ties,
            "checks": self._checks,
            "handlers": self._handlers,
            "row_handlers": self._row_handlers,
        }
        if name in tables:
            self._make(name, "{" + ", ".join(tables[name](path)) + "}")
        elif name == "finishers":
            self._finishers(path)
        elif name in (constants := _constants()):
            return constants[name]
        elif name in fragments():
            self._fragment(name)
        elif name.removeprefix("make_") in fragments():
            head, given, body = split(source_of(fragments()[name.removeprefix("make_")]))
            values = ", ".join([self._expression(one, path) for one in given])
            known = f"local {', '.join(given)} = {values}\n" if given else ""
            self._made.append(f"local function {name}()\n{known}{head}{body}end\n")
        else:
            raise ValueError(f"{path.name}: nothing gives it {name}")
        return name

    def _make(self, name: str, expression: str) -> None:
        self._made.append(f"local {name} = {expression}\n")

    def _fragment(self, name: str) -> None:
        expression = self._function(name)
        if self._words is None:
            self._make(name, expression)
        else:  # to make and call a function for it would take longer, and there are few local names
            head, given, body = split(source_of(fragments()[name]))
            constants = [one for one in given if self._known[one] != one]
            values = ", ".join([self._known[one] for one in constants])
            known = f"local {', '.join(constants)} = {values}\n" if constants else ""
            self._made.append(f"local {name} do\n{known}{_RETURN.sub(f'{name} = ', head + body)}end\n")

    def _function(self, name: str) -> str:
        """The expression that makes a fragment, with those before it that it needs."""
        path = fragments()[name]
        head, given, body = split(source_of(path))
        values = ", ".join([self._expression(one, path) for one in given])
        return f"(function({', '.join(given)})\n{head}{body}end)({values})"

    def _in_place(self, name: str, path: Path) -> str:
        """For a table whose fragments nothing else needs: they have no local name then."""
        return self._function(name) if self._words is None and name not in self._known else self._expression(name, path)

    def _ties(self, path: Path) -> Iterator[str]:
        for part in parts():
            for tie in part.ties.values():
                if self._knows(tie.word):
                    yield f"{tie.word} = {self._in_place(tie.fragment, path)}"

    def _checks(self, path: Path) -> Iterator[str]:
        for part in parts():
            for tie in part.ties.values():
                if self._knows(tie.word):
                    yield f"{tie.word} = {self._in_place(tie.check, path)}"

    def _handlers(self, path: Path) -> Iterator[str]:
        for part in parts():
            for fragment, words in part.handlers.items():
                for word in filter(self._knows, words):
                    yield f"['{word}'] = {self._expression(fragment, path)}['{word}']"

    def _row_handlers(self, path: Path) -> Iterator[str]:
        for part in parts():
            for rows in part.rows.values():
                if self._knows(rows.word):
                    yield f"{rows.word} = {self._expression(rows.fragment, path)}.{rows.word}"

    def _finishers(self, path: Path) -> None:
        """After the tables for which the fragments are made."""
        last = [f"{name}.finish" for part in parts() for name in part.finishers if name in self._known]
        self._make("finishers", "{" + ", ".join(last) + "}")

    def _knows(self, word: str) -> bool:
        return self._words is None or word in self._words


@cache
def _constants() -> dict[str, str]:
    return {name: str(value) for part in parts() for name, value in part.constants.items()}


_TABLES = {
    "ties": Composition._ties,
    "checks": Composition._checks,
    "handlers": Composition._handlers,
    "row_handlers": Composition._row_handlers,
}
