"""Finds what can be broken in the code, one thing at a time, and breaks it in this process.

In Lua each write is removed: its call is answered as if the write were done. In Python each condition of a branch is
inverted, and so is each operand of a condition; where `and` and `or` choose a value, they are exchanged.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from goworkers_py.brokers.redis.driver import composition, exchange

PACKAGE = Path(__file__).resolve().parents[3] / "goworkers_py"
FOLDERS = ("policy", "brokers/redis")
# Commands of scripts that write nothing. A test asks the server whether all others of them write.
READS = frozenset(
    {
        "EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "LINDEX", "LLEN", "LPOS", "LRANGE",
        "PTTL", "TIME", "TTL", "ZCARD", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZREVRANGE",
    }
)  # fmt: skip
_CALL = re.compile(r"redis\.p?call\((?:'([A-Z]+)')?")
_TEXT_OR_COMMENT = re.compile(r"'(?:\\.|[^'\\\n])*'|--.*")

# Both stand before a script, on its first line: so lines keep their numbers.
_UNWRITTEN = """
local function unwritten(command, key, first, second, ...)
  local answers = {
    HINCRBY = function() return (tonumber(redis.pcall('HGET', key, first)) or 0) + second end,
    HDEL = function() return redis.pcall('HEXISTS', key, first) end,
    HSETNX = function() return 1 - redis.pcall('HEXISTS', key, first) end,
    DEL = function() return redis.pcall('EXISTS', key) end,
    UNLINK = function() return redis.pcall('EXISTS', key) end,
    ZREM = function() return redis.pcall('ZSCORE', key, first) and 1 or 0 end,
    LREM = function() return redis.pcall('LPOS', key, second) and 1 or 0 end,
    RENAMENX = function() return 1 - redis.pcall('EXISTS', first) end,
    RPOPLPUSH = function() return redis.pcall('LINDEX', key, '-1') end,
    SET = function() return {ok = 'OK'} end, LTRIM = function() return {ok = 'OK'} end,
    LSET = function() return {ok = 'OK'} end,
  }
  if string.find('READS', ' ' .. command .. ' ', 1, true) then return redis.pcall(command, key, first, second, ...) end
  return answers[command] and answers[command]() or 1
end
""".replace("READS", f" {' '.join(sorted(READS))} ")
_NOTED = """
local function noted(number, call)
  redis.log(redis.LOG_WARNING, '@write ' .. number)
  return call
end
"""


class Mutant(NamedTuple):
    file: str  # below goworkers_py
    label: str  # unlike that of any other in the file, and it stays the same when lines are added elsewhere
    line: int
    last: int  # the last line of the condition
    number: int  # among those of the file

    def apply(self) -> None:
        """Changes the code of this process."""
        if self.file.endswith(".lua"):
            change_scripts({self.file: _without_write(self.file, self.number)}, _UNWRITTEN)
        else:
            _change_functions(PACKAGE / self.file, self.number)


def files() -> list[str]:
    paths = [path for folder in FOLDERS for path in sorted((PACKAGE / folder).rglob("*.py"))]
    return [str(path.relative_to(PACKAGE)) for path in (*sorted(PACKAGE.rglob("*.lua")), *paths)]


def mutants(file: str) -> list[Mutant]:
    return _of_lua(file) if file.endswith(".lua") else _of_python(file)


def _unique(found: Sequence[tuple[str, int, int]], file: str) -> list[Mutant]:
    seen: Counter[str] = Counter()
    unique = []
    for number, (label, line, last) in enumerate(found):
        seen[label] += 1
        again = f" ({seen[label]})" if seen[label] > 1 else ""
        unique.append(Mutant(file, label + again, line, last, number))
    return unique


# --- Lua


class Write(NamedTuple):
    start: int  # of `redis.call(` in the text
    end: int
    command: str  # empty: it is chosen when the script runs


def writes(text: str) -> list[Write]:
    code = _TEXT_OR_COMMENT.sub(lambda found: found[0] if found[0][0] == "'" else " " * len(found[0]), text)
    calls = [(found.start(), found.start() + found[0].index("(") + 1, found[1] or "") for found in _CALL.finditer(code)]
    return [Write(*call) for call in calls if call[2] not in READS]


def _of_lua(file: str) -> list[Mutant]:
    text = (PACKAGE / file).read_text("utf-8")
    lines = text.splitlines()
    found = []
    for write in writes(text):
        line = text.count("\n", 0, write.start) + 1
        found.append((f"{write.command or 'call'} removed: `{lines[line - 1].strip()}`", line, line))
    return _unique(found, file)


def _without_write(file: str, number: int) -> str:
    text = (PACKAGE / file).read_text("utf-8")
    write = writes(text)[number]
    return f"{text[: write.start]}unwritten({text[write.end :]}"


def note_writes() -> list[tuple[str, int]]:
    """From now on each write of a script is noted in the log of the server: `@write` and its place in this list."""
    places, changes = [], {}
    for file in files():
        if file.endswith(".lua"):
            text = (PACKAGE / file).read_text("utf-8")
            first, found = len(places), writes(text)
            for number, write in reversed([*enumerate(found)]):
                call = text[write.start : write.end - 1]
                text = f"{text[: write.start]}noted({first + number}, {call})({text[write.end :]}"
            places += [(file, number) for number in range(len(found))]
            changes[file] = text
    change_scripts(changes, _NOTED)
    return places


def change_scripts(changes: Mapping[str, str], before: str = _UNWRITTEN) -> None:
    """Gives every script of this process the changed text of files, and `before` at its beginning."""
    texts = {PACKAGE / file: text for file, text in changes.items()}
    before = f"{' '.join(before.split())} "
    compose = composition.Composition.compose
    composition.source_of = lambda path: texts.get(path) or path.read_text("utf-8")
    composition.Composition.compose = lambda self, path: before + compose(self, path)  # type: ignore[method-assign]
    for script in living()[exchange.Script]:
        for name in ("source", "sha"):  # each is made again when it is needed
            vars(script).pop(name, None)


@cache
def living() -> Mapping[type, Sequence[Any]]:
    """The scripts and functions of this process. A fork has them from the process before it: to look through all
    objects would copy all of their memory."""
    gc.unfreeze()  # conftest.py hides them from the collector
    found: dict[type, list[Any]] = {exchange.Script: [], FunctionType: []}
    for thing in gc.get_objects():
        if type(thing) in found:
            found[type(thing)].append(thing)
    gc.freeze()
    return found


# --- Python


def _of_python(file: str) -> list[Mutant]:
    finder = _Inverter()
    finder.visit(ast.parse((PACKAGE / file).read_text("utf-8")))
    return _unique(finder.found, file)


class _Inverter(ast.NodeTransformer):
    """Counts all conditions of functions, and inverts that with the chosen number. The code of a module, which runs
    when the module is imported, is left alone."""

    def __init__(self, chosen: int | None = None) -> None:
        self.found: list[tuple[str, int, int]] = []
        self._chosen = chosen
        self._names: list[str] = []
        self._functions = 0
        self._conditions: set[int] = set()  # the nodes that were met as a condition

    def _meet(self, node: ast.expr, how: str, changed: Callable[[], ast.expr]) -> ast.expr:
        if not self._functions or isinstance(node, ast.Constant) or ast.unparse(node) == "TYPE_CHECKING":
            return node
        self.found.append((f"{'.'.join(self._names)}: `{ast.unparse(node)}` {how}", node.lineno, node.end_lineno or 0))
        return ast.copy_location(changed(), node) if len(self.found) - 1 == self._chosen else node

    def _condition(self, node: ast.expr) -> ast.expr:
        self._conditions.add(id(node))
        inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else node
        self._conditions.add(id(inner))
        if isinstance(inner, ast.BoolOp):
            inner.values = [self._condition(value) for value in inner.values]
        return self._meet(node, "inverted", lambda: ast.UnaryOp(ast.Not(), node))

    def _named(self, node: ast.AST, name: str, function: bool) -> ast.AST:
        self._names.append(name)
        self._functions += function
        self.generic_visit(node)
        self._functions -= function
        self._names.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._named(node, node.name, function=False)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._named(node, node.name, function=True)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._named(node, "lambda", function=True)

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._branch(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._branch(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._branch(node)

    def _branch(self, node: ast.If | ast.While | ast.IfExp) -> ast.AST:
        node.test = self._condition(node.test)
        return self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.ifs = [self._condition(test) for test in node.ifs]
        return self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        whole = isinstance(node.pattern, ast.MatchAs) and node.pattern.pattern is None  # it matches whatever comes
        if node.guard or not whole:
            taken = ast.copy_location(ast.Name(f"case {ast.unparse(node.pattern)}", ast.Load()), node.pattern)
            if self._meet(taken, "never taken", lambda: ast.Constant(False)) is not taken:
                node.guard = ast.copy_location(ast.Constant(False), node.pattern)
        node.guard = node.guard and self._condition(node.guard)
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        node = self.generic_visit(node)  # type: ignore[assignment]
        if id(node) in self._conditions:
            return node
        other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        return self._meet(node, "with `and` and `or` exchanged", lambda: ast.BoolOp(other, node.values))


def _change_functions(path: Path, number: int) -> None:
    source = path.read_bytes()
    changed = ast.fix_missing_locations(_Inverter(number).visit(ast.parse(source)))
    before, after = (compile(tree, str(path), "exec", dont_inherit=True) for tree in (ast.parse(source), changed))
    pairs = dict(_unlike(before, after))
    ours = [one for one in living()[FunctionType] if one.__code__.co_filename == str(path)]
    functions = [one for one in ours if one.__code__ in pairs]
    assert functions, f"{path.name}: no function of this process has the condition {number}"
    for function in functions:
        function.__code__ = pairs[function.__code__]


def _unlike(before: CodeType, after: CodeType) -> list[tuple[CodeType, CodeType]]:
    """Each function of the one with that of the other, if they differ."""
    inner = [[const for const in code.co_consts if isinstance(const, CodeType)] for code in (before, after)]
    found = [pair for pairs in zip(*inner, strict=True) for pair in _unlike(*pairs)]
    return [*found, (before, after)] if before != after else found
