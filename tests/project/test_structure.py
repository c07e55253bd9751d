"""The rules that hold the code in its shape, see CONTRIBUTING.md."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import simplejson

import goworkers_py
from goworkers_py import App, Job
from goworkers_py.brokers.redis.keys import Keys

PACKAGE = Path(goworkers_py.__file__).parent

# From the bottom up: a room imports from itself and from the rooms before it.
ROOMS = [
    "core", "wire", "config", "observe", "policy", "brokers", "admin", "links", "runtime", "web", "system", "api",
    "cli",
]  # fmt: skip

# Lines of a module.
LONGEST = 300
USUAL = (60, 130)  # the median
# Those that are longer yet, and how long they may be: a number here only goes down.
STILL_LONGER: dict[str, int] = {}  # may only shrink

# Parameters of a constructor, beside `self`.
MOST_PARAMETERS = 6
# Those that still take more, by the name of the class: a number here only goes down.
STILL_MORE: dict[str, int] = {}

DRIVERS = {f"brokers.redis.{name}" for name in ("connection", "exchange", "replies", "sentinel", "translation")}
SIGNALLERS = {f"system.{name}" for name in ("child_process", "daemon", "signals", "supervisor")}
EMBEDDED = ("brokers.redis.embedded", "brokers.redis.server_guardian")


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) or "goworkers_py"


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in MODULES.items()}
SCRIPTS = sorted(PACKAGE.rglob("*.lua"))


def folder_of(module: str) -> str:
    """With its room, as in brokers.redis."""
    return ".".join(module.split(".")[:2])


@functools.cache
def imported(module: str) -> set[str]:
    """Everything that a module imports anywhere in it, by full name."""
    found: set[str] = set()
    modules = {f"goworkers_py.{name}" for name in MODULES}
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            full_names = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update({name if name in modules else str(node.module) for name in full_names})
    return found


def ours(module: str) -> set[str]:
    names = {name for name in imported(module) if name.partition(".")[0] == "goworkers_py"}
    return {name.removeprefix("goworkers_py.") for name in names}


# --- rooms


def test_the_packages_root_holds_its_face_alone() -> None:
    assert {name.partition(".")[0] for name in MODULES} == {*ROOMS, "goworkers_py"}


@pytest.mark.parametrize("module", [name for name in MODULES if name != "goworkers_py"])
def test_a_room_imports_from_the_rooms_below_it_only(module: str) -> None:
    below = ROOMS[: ROOMS.index(module.partition(".")[0]) + 1]
    assert {name.partition(".")[0] for name in ours(module)} <= {*below, "goworkers_py"}


@pytest.mark.parametrize("module", MODULES)
def test_a_server_is_known_in_the_folder_of_its_broker_alone(module: str) -> None:
    folders = {folder_of(name) for name in MODULES if name.count(".") == 2 and name.startswith("brokers.")}
    others = folders - {"brokers.contracts", folder_of(module)}
    assert {name for name in ours(module) if folder_of(name) in others} == set()


def test_no_imports_go_in_a_circle() -> None:
    graph = {module: ours(module) for module in MODULES if module != "goworkers_py"}
    list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    ("library", "users"),
    [
        ("redis", DRIVERS),
        ("hiredis", {"brokers.redis.packing"}),
        ("click", {module for module in MODULES if module.startswith("cli.") and module != "cli.__main__"}),
        ("subprocess", {"system.child_process", *EMBEDDED}),
        ("signal", {*SIGNALLERS, "cli.daemon", "cli.top", EMBEDDED[1]}),
        ("daemon", {"system.daemon"}),
    ],
)
def test_what_talks_to_the_world_stays_in_its_module(library: str, users: set[str]) -> None:
    found = {module for module in MODULES if library in {name.partition(".")[0] for name in imported(module)}}
    assert found == users


def test_only_declared_libraries_are_imported() -> None:
    found = {name.partition(".")[0] for module in MODULES for name in imported(module)}
    for_type_checkers = {"typing_extensions"}  # which bring it along
    declared = {"goworkers_py", "redis", "hiredis", "simplejson", "click", "daemon"}
    assert found - set(sys.stdlib_module_names) - for_type_checkers == declared


def test_all_json_is_by_the_public_interface_of_one_library() -> None:
    """By `simplejson.NAME`, so that a look for such names finds all of it."""
    nodes = [node for tree in TREES.values() for node in ast.walk(tree)]
    imports = {ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)}
    assert {line for line in imports if re.search(r"\b(simple|_)?json\b", line)} == {"import simplejson"}
    used = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "simplejson"
    }
    assert used <= set(simplejson.__all__)


def test_what_only_type_checkers_have_is_not_imported_when_the_program_runs() -> None:
    for tree in TREES.values():
        guarded = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        assert all(id(node) in guarded for node in imports if node.module == "typing_extensions")


def test_threads_are_started_only_where_their_end_is_seen_to() -> None:
    starters = {
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("threading.Thread", "Thread")
    }
    # That of the launcher runs the hooks of a drain, which must not hold it up; that of a supervised process waits for
    # words of its parent, to the end. That of the output writes log lines to the end, which does not wait for it.
    assert starters == {
        "runtime.service", "system.lifecycle", "runtime.launcher", "system.parent_link", "web.server", "system.output",
    }  # fmt: skip


def test_no_loop_sleeps_past_a_stop() -> None:
    """A wait is one on an Event, which `stop` ends."""
    sleepers = {
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep")
        if ast.unparse(node) != "time.sleep(0)"  # a yield
    }
    # The first two wait for a server, before there is anything to stop; a service sleeps after a fault of ours. A
    # worker with a suspect in hand looks at the stop after each sleep of some milliseconds, a log line that finds no
    # room waits for a second, one that waits for word of the lease has a time limit too.
    assert sleepers <= {*EMBEDDED, "runtime.lease", "runtime.service", "runtime.quarantine", "system.output"}


# --- sizes

LINES = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}


@pytest.mark.parametrize("module", MODULES)
def test_no_file_swallows_everything(module: str) -> None:
    assert LINES[module] <= STILL_LONGER.get(module, LONGEST)


def test_what_is_no_longer_too_long_is_no_exception() -> None:
    assert {module for module in STILL_LONGER if LINES.get(module, 0) <= LONGEST} == set()


def test_most_modules_are_neither_long_nor_scattered() -> None:
    lowest, highest = USUAL
    # A folder's own file only says what is in the folder.
    told = [LINES[name] for name, path in MODULES.items() if path.stem != "__init__"]
    assert lowest <= statistics.median(told) <= highest


def constructors() -> dict[str, int]:
    """How many parameters each constructor that is written out takes; those of dataclasses are not."""
    return {
        f"{module}.{owner.name}": len([*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs]) - 1
        for module, tree in TREES.items()
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for made in owner.body
        if isinstance(made, ast.FunctionDef) and made.name == "__init__"
    }


@pytest.mark.parametrize(("owner", "parameters"), constructors().items(), ids=constructors())
def test_a_constructor_takes_few_parameters(owner: str, parameters: int) -> None:
    assert parameters <= STILL_MORE.get(owner, MOST_PARAMETERS)


def test_a_constructor_that_takes_few_parameters_is_no_exception() -> None:
    assert {owner for owner in STILL_MORE if constructors().get(owner, 0) <= MOST_PARAMETERS} == set()


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is(module: str) -> None:
    assert ast.get_docstring(TREES[module])


# --- the public face


def test_the_public_names_are_sorted_and_nothing_else_is_in_the_face() -> None:
    assert goworkers_py.__all__ == sorted(goworkers_py.__all__)
    assigned = set()
    for node in TREES["goworkers_py"].body:
        if isinstance(node, ast.ImportFrom):
            assigned |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            assigned |= {ast.unparse(target) for target in node.targets}
    assert assigned - {"__all__", "__version__"} == set(goworkers_py.__all__)


@pytest.mark.parametrize(
    "name",
    [
        "job", "current_message", "configure", "process", "middleware", "before_start", "during_drain", "enqueue",
        "enqueue_in", "enqueue_at", "enqueue_with_options", "EnqueueOptions", "stats_server", "run", "start", "quit",
    ],
)  # fmt: skip
def test_what_the_design_promises_is_public(name: str) -> None:
    assert name in goworkers_py.__all__
    assert getattr(goworkers_py, name) is not None


@pytest.mark.parametrize("name", ["enqueue", "enqueue_in", "enqueue_at", "enqueue_bulk", "__call__"])
def test_a_job_can_be_pushed_in_every_way_the_design_promises(name: str) -> None:
    assert callable(getattr(Job, name))


def test_the_functions_of_the_package_are_those_of_one_default_app() -> None:
    assert isinstance(goworkers_py.app, App)
    assert goworkers_py.enqueue == goworkers_py.app.enqueue
    assert goworkers_py.middleware is goworkers_py.app.middleware


# --- keys


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text in a module, also the fixed parts of f-strings; not the docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


# What only a key's name holds. Sections of the configuration begin with `queue:` too.
_OF_KEYS = re.compile(r"^(queue|stat|pyworkers):(?! )|:inprogress")
_OTHER_WORDS = {"config.loader": {"queue:", "queue:NAME"}}


@pytest.mark.parametrize("module", [name for name in MODULES if name != "brokers.redis.keys"])
def test_no_key_is_spelled_outside_of_keys(module: str) -> None:
    assert {text for text in texts(TREES[module]) if _OF_KEYS.search(text)} == _OTHER_WORDS.get(module, set())


def test_keys_that_are_ordinary_words_are_few() -> None:
    """The search above cannot tell those from a field's or an option's name; the next one can."""
    fixed = {key for name, key in vars(Keys()).items() if name != "prefix"}
    assert {key for key in fixed if not _OF_KEYS.search(key)} == {
        "queues", "schedule", "retry", "dead", "paused", "processes", "process_cleanup",
    }  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_no_command_is_sent_with_a_key_spelled_beside_it(module: str) -> None:
    """In ("HGETALL", key) the key is not a text."""
    for node in ast.walk(TREES[module]):
        words = node.elts if isinstance(node, ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        if len(words) < 2 or not isinstance(words[0], ast.Constant) or not isinstance(words[0].value, str):
            continue
        if words[0].value.isupper() and words[0].value not in _WITHOUT_KEYS:
            assert not isinstance(words[1], ast.Constant | ast.JoinedStr), ast.unparse(node)


_WITHOUT_KEYS = {"CLIENT", "EVAL", "EVALSHA", "CONFIG", "INFO", "PING", "SHUTDOWN"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_given_its_keys(script: Path) -> None:
    code = re.sub(r"--.*", "", script.read_text("utf-8"))
    calls = re.findall(r"redis\.p?call\(([^,()]+|[^,]+\bor\b[^,]+)(?:,\s*([^,()\[]+(?:\[.*?\])?))?", code)
    assert calls
    from_keys = set(re.findall(r"local ([A-Z_, ]+) =\s+KEYS", code))
    names = {name.strip() for line in from_keys for name in line.split(",")}
    passed_on = {"list", "key", "day_key"}  # parameters of functions that are called with KEYS
    for command, key in calls:
        if command == "'TIME'" or (script.name, key.strip()) == _HOLDERS_LEASE:
            continue
        assert key.startswith("KEYS[") or key in names | passed_on, f"{command}, {key}"


# The lease of whoever holds a process name: its name is known only once the script has read the holder.
_HOLDERS_LEASE = ("beat.lua", "leases .. holder")


def test_no_payload_goes_through_luas_json() -> None:
    """It breaks large numbers and turns [] into {}."""
    assert not [script.name for script in SCRIPTS if "cjson" in script.read_text("utf-8")]
