"""How far a reader, a push and a run have to walk. Each limit is the figure of the day on which it was last lowered: it
only gets lower."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import RedisServer

import goworkers_py
from goworkers_py.features import FEATURES

PACKAGE = Path(goworkers_py.__file__).parent

FLOORS = 25  # of imports: a module on the ground floor imports none of ours
# Of one plain push to Redis, after the first one of a program. Instructions are those of CPython 3.11.
PUSH = {"functions": 46, "modules": 14, "instructions": 1_235}
# Of the worker's thread: a plain job, a unique one, and one with a lock so short that its begin asks the server for it.
RUNS = {
    "plain": {"functions": 20, "modules": 17},
    "unique": {"functions": 34, "modules": 22},
    "short": {"functions": 85, "modules": 35},
}
OPTIONS = {"plain": {}, "unique": {"unique_for": 3_600}, "short": {"unique_for": 60}}

# They are what users see of all features: the methods of an App, and a path from which tests of users import.
EXEMPT = {"__init__", "api.app", "api.producer", "testing.persistence"}
# Words of features that the engine has too, with another meaning: the group of a user of the system, that of a job in
# its record, and what a job returns.
ALSO_OF_ENGINE = {"group", "result"}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


@functools.cache
def modules() -> dict[str, ast.Module]:
    return {name_of(path): ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def nodes_at_run_time(node: ast.AST, inside_functions: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if is_for_type_checkers(child):
            continue
        if not inside_functions and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield child
        yield from nodes_at_run_time(child, inside_functions)


def imported(name: str, inside_functions: bool = False) -> set[str]:
    """Our modules that a module imports: while it is imported, or also when its functions are called."""
    found = set()
    for node in nodes_at_run_time(modules()[name], inside_functions):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "goworkers_py":
            of = (node.module or "").partition(".")[2]
            for alias in node.names:
                full = f"{of}.{alias.name}".lstrip(".")
                found.add(next(one for one in (full, of, f"{of}.__init__".lstrip(".")) if one in modules()))
    return found - {name}


def test_the_floors_of_imports_get_no_more() -> None:
    heights: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in heights:
            heights[name] = 0
            heights[name] = 1 + max([height(one) for one in imported(name)], default=0)
        return heights[name]

    assert max(map(height, modules())) <= FLOORS


def engine() -> list[str]:
    return [name for name in modules() if not name.startswith("features.") and name not in EXEMPT]


def test_no_two_classes_share_a_name() -> None:
    names = [
        node.name
        for tree in modules().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert sorted(names) == sorted(set(names))


def test_the_engine_imports_no_feature() -> None:
    """It folds over the list of them."""
    assert {
        name
        for name in engine()
        if any(re.fullmatch(r"features\.\w+\.\w+", one) and not one.startswith("features.__")
               for one in imported(name, inside_functions=True))
    } == set()  # fmt: skip


def words_of_features() -> set[str]:
    """Their options of jobs, and their members and fields of payloads."""
    found = set[str]()
    for feature in FEATURES:
        for options in (feature.options, feature.options_of_code, feature.options_of_push):
            if options:
                module = importlib.import_module(f"goworkers_py.features.{feature.name}.job_options")
                found |= getattr(module, options).__annotations__.keys()
        found |= {*feature.needs, *feature.moves().followers, *feature.push_marks, *feature.fields_until_begun}
    return found


def test_the_engine_knows_no_word_of_a_feature() -> None:
    words = words_of_features() - ALSO_OF_ENGINE
    assert len(words) > 20
    assert {
        (name, node.value)
        for name in engine()
        for node in ast.walk(modules()[name])
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words
    } == set()


WALK = """
import collections, json, sys, threading, time
import goworkers_py as workers
from goworkers_py.config.options import QueueConfig

options, url, folder = sys.argv[1:]
done, calls, on, instructions = threading.Event(), collections.defaultdict(list), False, 0
workers.configure(broker=url)
job = workers.job("J", queue="q", **json.loads(options))(lambda number: done.set())

def note(frame, event, argument):
    if on and event == "call" and frame.f_code.co_filename.startswith(folder):
        calls[threading.current_thread().name].append(frame.f_code.co_filename)

def count(frame, event, argument):
    global instructions
    if not frame.f_code.co_filename.startswith(folder):
        return None
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    instructions += event == "opcode"
    return count

def walked(thread):
    files = [file for name, several in calls.items() if name.startswith(thread) for file in several]
    print(len(files), len(set(files)))

job.enqueue(1)
sys.settrace(count)
job.enqueue(2)
sys.settrace(None)
print(instructions)
threading.setprofile(note)
sys.setprofile(note)
on = True
job.enqueue(3)
on = False
walked("MainThread")
workers.app._declared.queues["q"] = QueueConfig(name="q", concurrency=1)
workers.start()
done.wait(30)
time.sleep(0.5)
done.clear()
calls.clear()
on = True
job.enqueue(4)
done.wait(30)
time.sleep(0.5)
on = False
walked("worker")
sys.setprofile(None)
threading.setprofile(None)
workers.quit()
"""


@pytest.mark.server
@pytest.mark.parametrize("kind", RUNS)
def test_a_push_and_a_run_walk_no_farther(own_redis: RedisServer, kind: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", WALK, json.dumps(OPTIONS[kind]), own_redis.url, str(PACKAGE)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.split()
    instructions, functions, files, run_functions, run_files = map(int, output)
    if kind == "plain":
        assert functions <= PUSH["functions"]
        assert files <= PUSH["modules"]
        if sys.version_info[:2] == (3, 11):  # each release of Python has instructions of its own
            assert instructions <= PUSH["instructions"]
    assert run_functions <= RUNS[kind]["functions"]
    assert run_files <= RUNS[kind]["modules"]
