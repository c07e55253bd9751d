"""Composes the scripts of Lua from files. A server runs a script from its first line on each call, and takes as long as
there are functions to make. So a script makes only the fragments that its call needs.

A script is a file in a folder `lua`. A fragment is a file in the folder `fragments` in it: an engine step, or what
handles the words of a feature. A fragment returns one table of functions (or one function, or a value), and uses no
name but those of Lua and of the server, and those that it is given. Both say in one line of code what they are given:

    local key_at, now, KEPT_S = ...

The lines of a script before that line are its head, whose locals may be given too, also to fragments of fragments. A
comment says which the script itself does not use:

    -- For fragments: FIXED, arguments

No local of a head has the name of a fragment, of a table or of a constant: it would take its place in silence. Each
other name is

- a table by words, made of the fragments that handle them: `ties` of pushes and their `checks`, `handlers` of effects,
  `row_handlers` of rows, and `finishers`, the last step of those of these fragments that have one;
- a constant of a part, which Python knows;
- another fragment, which is made once in a script; `make_NAME` is a function that makes it, and the fragments that only
  it needs: for what few calls need.

A script that knows few words makes its fragments one after the other. One that knows all words makes a fragment when a
call needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from goworkers_py.brokers.redis.parts import parts

_GIVEN = re.compile(r"^local ([\w, ]+) = \.\.\.\n", re.MULTILINE)
_LOCALS = re.compile(r"^local (?:function )?(\w+(?:, \w+)*)", re.MULTILINE)
_RETURN = re.compile(r"^return ", re.MULTILINE)
FRAGMENTS = "fragments"
TABLES = frozenset({"ties", "checks", "handlers", "row_handlers", "finishers"})


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
    """The text before the line that says what is given, the names in that line, and the text behind it."""
    found = _GIVEN.search(source)
    if found is None:
        return "", [], source
    return source[: found.start()], found[1].split(", "), source[found.end() :]


def locals_of(head: str) -> list[str]:
    return [name for names in _LOCALS.findall(head) for name in names.split(", ")]


class Composition:
    """One script. `words` are those of ties, effects and rows that it is to know; None: all."""

    def __init__(self, words: Collection[str] | None = None) -> None:
        self._words = words
        self._known: dict[str, str] = {}  # each name that was given, with the expression for it
        self._made: list[str] = []  # what comes before the script itself

    def compose(self, path: Path) -> str:
        head, given, body = split(source_of(path))
        self._known |= {name: name for name in locals_of(head)}
        if taken := self._known.keys() & (fragments().keys() | TABLES | _constants().keys()):
            raise ValueError(f"{path.name}: its head has a local of the name of something else: {', '.join(taken)}")
        if self._words is None and _needs_tables(given, frozenset(self._known)):
            return f"{head}{self._when_needed(given, path)}{body}"
        for name in given:
            if self._expression(name, path) != name:
                self._made.append(f"local {name} = {self._known[name]}\n")
        return f"{head}{''.join(self._made)}{body}"

    # --- one after the other

    def _expression(self, name: str, path: Path) -> str:
        """How a name is written where it is used; what it needs is made before."""
        if name not in self._known:
            self._known[name] = self._found(name, path)
        return self._known[name]

    def _found(self, name: str, path: Path) -> str:
        if name == "finishers":
            last = [f"{fragment}.finish" for fragment in _finishers() if fragment in self._known]
            self._made.append(f"local finishers = {{{', '.join(last)}}}\n")
        elif name in TABLES:
            fields = [
                f"['{word}'] = {self._expression(fragment, path)}{_field(name, word)}"
                for word, fragment in self._of_words(name)
            ]
            self._made.append(f"local {name} = {{{', '.join(fields)}}}\n")
        elif name in _constants():
            return _constants()[name]
        elif name in fragments():
            made = _RETURN.sub(f"{name} = ", self._body(name, self._expression))
            self._made.append(f"local {name} do\n{made}end\n")
        elif name.removeprefix("make_") in fragments():
            self._made.append(f"local function {name}()\n{self._made_inside(name.removeprefix('make_'))}end\n")
        else:
            raise ValueError(f"{path.name}: nothing gives it {name}")
        return name

    def _body(self, name: str, expression: Callable[[str, Path], str]) -> str:
        """The text of a fragment, with the expressions for what it is given."""
        path = fragments()[name]
        head, given, body = split(source_of(path))
        return f"{head}{_locals({given_name: expression(given_name, path) for given_name in given})}{body}"

    def _made_inside(self, name: str) -> str:
        """The text of a fragment behind all that it needs and that is not made yet."""
        inside = Composition(self._words)
        inside._known = dict(self._known)
        body = inside._body(name, inside._expression)
        return f"{''.join(inside._made)}{body}"

    def _of_words(self, table: str) -> Iterator[tuple[str, str]]:
        """The words of a table that the script is to know, each with its fragment."""
        return (pair for pair in _fragments_of_words(table) if self._words is None or pair[0] in self._words)

    # --- when they are needed

    def _when_needed(self, given: list[str], path: Path) -> str:
        makers: dict[str, str] = {}
        values = {name: self._lazily(name, path, makers) for name in given}
        made = ",\n".join(f"{name} = function()\n{text}end" for name, text in makers.items())
        return f"{_MADE.replace('MAKERS', made)}{_locals(values)}"

    def _lazily(self, name: str, path: Path, makers: dict[str, str]) -> str:
        """The expression for a name. Adds what makes it, and what that needs."""
        if name in self._known:
            return self._known[name]
        if name in _constants():
            return _constants()[name]
        if name.removeprefix("make_") in fragments() and name not in fragments():
            return f"(function() return {self._lazily(name.removeprefix('make_'), path, makers)} end)"
        if name not in TABLES and name not in fragments():
            raise ValueError(f"{path.name}: nothing gives it {name}")
        if name not in makers:
            makers[name] = ""
            needed = partial(self._lazily, makers=makers)
            makers[name] = self._table(name, path, makers) if name in TABLES else self._body(name, needed)
        return f"made.{name}"

    def _table(self, name: str, path: Path, makers: dict[str, str]) -> str:
        if name == "finishers":
            return f"return {{{', '.join(_FINISHER.replace('NAME', fragment) for fragment in _finishers())}}}\n"
        fields = []
        for word, fragment in self._of_words(name):
            self._lazily(fragment, path, makers)
            fields.append(f"['{word}'] = '{fragment}'")
        table = _BY_WORDS if _field(name, "") else _BY_WORDS.replace("[fragments[word]][word]", "[fragments[word]]")
        return table.replace("FIELDS", ", ".join(fields))


# `made` has each fragment and table that the call has needed so far.
_MADE = """local made
local makers = {
MAKERS}
made = setmetatable({}, {__index = function(known, name)
local value = makers[name]()
known[name] = value
return value
end})
"""
_BY_WORDS = """local fragments = {FIELDS}
return setmetatable({}, {__index = function(known, word)
if not fragments[word] then return nil end
local value = made[fragments[word]][word]
known[word] = value
return value
end})
"""
_FINISHER = "function() if rawget(made, 'NAME') then made.NAME.finish() end end"


def _locals(values: Mapping[str, str]) -> str:
    """The line that gives the values their names. A value that is written by its own name needs none."""
    others = {name: value for name, value in values.items() if value != name}
    return f"local {', '.join(others)} = {', '.join(others.values())}\n" if others else ""


def _field(table: str, word: str) -> str:
    """A tie is a fragment; a fragment may handle several words of effects and rows."""
    return "" if table in ("ties", "checks") else f"['{word}']"


def _fragments_of_words(table: str) -> Iterator[tuple[str, str]]:
    for part in parts():
        if table == "ties":
            yield from ((tie.word, tie.fragment) for tie in part.ties.values())
        elif table == "checks":
            yield from ((tie.word, tie.check) for tie in part.ties.values())
        elif table == "handlers":
            yield from ((word, fragment) for fragment, words in part.handlers.items() for word in words)
        else:
            yield from ((rows.word, rows.fragment) for rows in part.rows.values())


def _needs_tables(given: Collection[str], known: frozenset[str]) -> bool:
    """Whether one of these names is a table by words, or a fragment that needs one."""
    found, left = set[str](), set(given) - known
    while left:
        name = left.pop()
        found.add(name)
        if name in fragments():
            left |= set(split(source_of(fragments()[name]))[1]) - known - found
    return not TABLES.isdisjoint(found)


def _finishers() -> list[str]:
    return [fragment for part in parts() for fragment in part.finishers]


@cache
def _constants() -> dict[str, str]:
    return {name: str(value) for part in parts() for name, value in part.constants.items()}
