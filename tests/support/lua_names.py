"""Finds the names that a file of Lua uses, and how many local names its functions have."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(r"--[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|[A-Za-z_]\w*|\d[\w.]*|\.\.\.|\.\.|[=~<>]=|\S")
_KEYWORDS = frozenset(
    [
        "and",
        "break",
        "do",
        "else",
        "elseif",
        "end",
        "false",
        "for",
        "function",
        "if",
        "in",
        "local",
        "nil",
        "not",
        "or",
        "repeat",
        "return",
        "then",
        "true",
        "until",
        "while",
    ]
)
# Of Lua, and of the server.
KNOWN = frozenset(
    [
        "cjson",
        "cmsgpack",
        "error",
        "ipairs",
        "math",
        "next",
        "pairs",
        "pcall",
        "redis",
        "select",
        "string",
        "table",
        "tonumber",
        "tostring",
        "type",
        "unpack",
        "KEYS",
        "ARGV",
    ]
)


def tokens(source: str) -> list[str]:
    return [token for token in _TOKEN.findall(source) if not token.startswith("--")]


def _declared(found: list[str]) -> Iterator[str]:
    """Every name that is declared anywhere in the file: locals, parameters, variables of loops."""
    for at, token in enumerate(found):
        if token == "local" and found[at + 1] == "function":
            yield found[at + 2]
        elif token in ("local", "for"):
            while True:
                at += 1
                yield found[at]
                at += 1
                if found[at] != ",":
                    break
        elif token == "function":
            while found[at] != "(":
                at += 1
            yield from (name for name in found[at + 1 : found.index(")", at)] if name.isidentifier())


def globals_of(source: str) -> set[str]:
    """The names that a file uses and does not declare. (A name that is used outside of the block that declares it is
    found only when the script runs.)"""
    found = tokens(source)
    declared, names, braces = {*_declared(found)}, set(), 0
    for at, token in enumerate(found):
        braces += (token == "{") - (token == "}")
        if not re.match(r"[A-Za-z_]", token) or token in _KEYWORDS or token in declared:
            continue
        before, after = found[at - 1] if at else "", found[at + 1] if at + 1 < len(found) else ""
        is_field = before in (".", ":") or (braces and after == "=" and before in ("{", ","))
        if not is_field and token not in KNOWN:
            names.add(token)
    return names


def most_locals(source: str) -> int:
    """The most local names that are in force at once in one function, or in the script itself: Lua allows 200."""
    found, most = tokens(source), 0
    functions = [[0]]  # of each open function the names of its open blocks
    for at, token in enumerate(found):
        if token == "function":
            functions[-1][-1] += found[at - 1] == "local"
            functions.append([sum(name.isidentifier() for name in found[at + 1 : found.index(")", at)])])
        elif token in ("end", "until", "else", "elseif"):
            functions[-1].pop()
        if not functions[-1]:
            functions.pop()
        if token in ("for", "while", "then", "repeat", "else") or (token == "do" and not _is_of_loop(found, at)):
            # A loop has three names of its own.
            functions[-1].append(3 + found[at : found.index("do", at)].count(",") if token == "for" else 0)
        elif token == "local" and found[at + 1] != "function":
            functions[-1][-1] += _names_of(found, at + 1)
        most = max(most, sum(functions[-1]))
    return most


def functions_made(source: str) -> int:
    """How many functions a call of the script makes before it calls one of them: those that are in no other one."""
    count, blocks = 0, list[str]()
    for token in tokens(source):
        if token in ("function", "if", "do", "repeat"):
            count += token == "function" and "function" not in blocks
            blocks.append(token)
        elif token in ("end", "until"):
            blocks.pop()
    return count


def _names_of(found: list[str], at: int) -> int:
    count = 1
    while found[at + 1] == ",":
        at, count = at + 2, count + 1
    return count


def _is_of_loop(found: list[str], at: int) -> bool:
    """Whether this `do` follows `for` or `while`, which have opened the block already."""
    before = (token for token in reversed(found[:at]) if token in ("for", "while", "do", "then", "end", "else"))
    return next(before, "") in ("for", "while")
