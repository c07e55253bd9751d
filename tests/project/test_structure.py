"""The rules of the code's structure, see CONTRIBUTING.md: rooms, public names, key names."""

from __future__ import annotations

import ast
import functools
import graphlib
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import simplejson

import goworkers_py
from goworkers_py import App, Job, features
from goworkers_py.brokers.redis.driver.composition import split
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.feature import Feature

PACKAGE = Path(goworkers_py.__file__).parent

# From the bottom up: a room imports from itself and from the rooms before it.
ROOMS = [
    "core", "wire", "config", "observe", "policy", "brokers", "admin", "links", "runtime", "web", "system",
    "api", "testing", "cli",
]  # fmt: skip
FEATURES = [feature.name for feature in features.FEATURES]
# Modules that the entry of a feature imports at once.
BY_ENTRIES = {"features.feature", "features.parts"}
DRIVERS = {
    f"brokers.redis.driver.{name}"
    for name in ("cluster", "connection", "exchange", "listener", "redirects", "replies", "sentinel", "translation")
}
SIGNALLERS = {f"system.{name}" for name in ("child_process", "daemon", "early_signals", "signals", "supervisor")}
EMBEDDED = ("brokers.redis.server.embedded_server", "brokers.redis.server.server_guardian")


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) or "goworkers_py"


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
SCRIPTS = sorted(PACKAGE.rglob("*.lua"))
# They import click: the commands of features, and the entries of these features for type checkers.
OF_COMMANDS = {"features.feature", "features.parts"} | {
    f"features.{name}{part}"
    for name in FEATURES
    if f"features.{name}.commands" in MODULES
    for part in (".commands", "")
    # A flag of a command of the engine is more than a parameter of click.
    if (name, part) not in (("plain_lists", ""), ("expiry", ""))
}


@functools.cache  # and not at import: each parallel worker of pytest imports this module
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text("utf-8")) for name, path in MODULES.items()}


@functools.cache
def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Of a whole module. Most tests look at all of them, and to walk through a module takes longer than to look."""
    return list(ast.walk(tree))


def folder_of(module: str) -> str:
    """The folder with its room, such as brokers.redis."""
    return ".".join(module.split(".")[:2])


@functools.cache
def imported(module: str) -> set[str]:
    """Everything that a module imports anywhere in it, by full name."""
    found: set[str] = set()
    modules = {f"goworkers_py.{name}" for name in MODULES}
    for node in nodes_of(trees()[module]):
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


def entry_imports(module: str) -> set[str]:
    """The imports of a feature's entry, without those in its methods: these are late, see `features.feature`."""
    top = [node for node in trees()[module].body if isinstance(node, ast.ImportFrom)]
    return {str(node.module).removeprefix("goworkers_py.") for node in top if str(node.module).startswith("goworkers")}


# --- rooms


def test_the_root_of_the_package_holds_only_rooms_and_the_public_names() -> None:
    assert {name.partition(".")[0] for name in MODULES} == {*ROOMS, "features", "goworkers_py"}


def test_a_room_imports_from_the_rooms_below_it_only() -> None:
    rooms = {room: place for place, room in enumerate(ROOMS)} | {"goworkers_py": -1}
    assert [
        f"{module} imports {name}"
        for module in MODULES
        if module != "goworkers_py" and not module.startswith("features")
        for name in ours(module)
        if not name.startswith("features")
        if rooms[name.partition(".")[0]] > rooms[module.partition(".")[0]]
    ] == []


DRIVER_OF_DISQUE = {
    f"brokers.redis.driver.{name}"
    for name in ("address", "blocking_line", "connection", "exchange", "packing", "translation")
}


def test_a_server_is_known_in_the_folder_of_its_broker_alone() -> None:
    folders = {folder_of(name) for name in MODULES if name.count(".") == 2 and name.startswith("brokers.")}
    assert [
        f"{module} imports {name}"
        for module in MODULES
        if module != "goworkers_py"  # the public names
        for name in ours(module)
        if folder_of(name) in folders - {"brokers.contracts", folder_of(module)}
        # The broker of the test modes is the memory broker, with a clock of its own.
        and (module, folder_of(name)) != ("testing.fake_broker", "brokers.memory")
        # Disque speaks the protocol of Redis.
        and not (folder_of(module) == "brokers.disque" and name in DRIVER_OF_DISQUE)
        and not module.startswith("features.")
    ] == []


@pytest.mark.parametrize("feature", features.FEATURES, ids=FEATURES)
def test_a_feature_names_in_uses_the_features_that_it_imports_and_no_others(feature: Feature) -> None:
    own = f"features.{feature.name}"
    imports = {name for module in MODULES if folder_of(module) == own for name in ours(module)}
    others = {name.split(".")[1] for name in imports if name.startswith("features.")} & {*FEATURES}
    assert others - {feature.name} == {*feature.uses}


def test_no_imports_go_in_a_circle() -> None:
    graph = {
        module: entry_imports(module)
        if module.removeprefix("features.") in ("feature", "parts", *FEATURES)
        else ours(module)
        for module in MODULES
    }
    list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    ("library", "users"),
    [
        ("redis", {*DRIVERS, "brokers.disque.nodes"}),
        ("hiredis", {"brokers.redis.driver.packing"}),
        (
            "pika",
            {f"brokers.rabbitmq.{name}" for name in ("address", "connection", "foreign", "publisher", "translation")},
        ),
        (
            "click",
            {module for module in MODULES if module.startswith("cli.") and module != "cli.__main__"} | OF_COMMANDS,
        ),
        ("subprocess", {"system.child_process", *EMBEDDED}),
        ("signal", {*SIGNALLERS, "cli.daemon", "cli.top", "cli.web", EMBEDDED[1]}),
        ("daemon", {"system.daemon"}),
        ("cronsim", {"features.periodic.slots"}),
    ],
)
def test_a_library_that_talks_to_the_world_is_imported_in_its_module_only(library: str, users: set[str]) -> None:
    found = {module for module in MODULES if library in {name.partition(".")[0] for name in imported(module)}}
    assert found == users


def test_only_declared_libraries_are_imported() -> None:
    found = {name.partition(".")[0] for module in MODULES for name in imported(module)}
    for_type_checkers = {"typing_extensions"}  # type checkers bring it along
    # cronsim is for periodic jobs with a cron expression, and pika for RabbitMQ: imported where one is found.
    declared = {"goworkers_py", "redis", "hiredis", "simplejson", "click", "daemon", "cronsim", "msgpack", "pika"}
    declared |= {"jinja2", "markupsafe"}  # of the extra `web`; jinja2 brings markupsafe along
    assert found - set(sys.stdlib_module_names) - for_type_checkers == declared


def test_all_json_is_by_the_public_interface_of_one_library() -> None:
    """Used as `simplejson.NAME`, so that a search for these names finds every use."""
    nodes = [node for tree in trees().values() for node in nodes_of(tree)]
    imports = {ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)}
    assert {line for line in imports if re.search(r"\b(simple|_)?json\b", line)} == {"import simplejson"}
    used = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "simplejson"
    }
    assert used <= set(simplejson.__all__)


# They read what this package has written or the user's codec returns, or leave the error to their callers.
READ_THEIR_OWN_JSON = {
    "features.delays.redis_lists", "features.iteration.run", "features.tracking.api", "system.daemon", "wire.codecs",
    "features.delays.task",
}  # fmt: skip


def test_json_of_strangers_may_be_nested_too_deep() -> None:
    """simplejson raises RecursionError then, which is no ValueError."""

    def safe(block: ast.AST, child: ast.AST) -> bool:
        caught = ""
        if isinstance(block, ast.Try) and child in block.body:
            caught = " ".join(ast.unparse(handler.type) for handler in block.handlers if handler.type)
        elif isinstance(block, ast.With):
            caught = ast.unparse(block.items[0].context_expr)
        return re.search(r"\b(RecursionError|Exception)\b", caught) is not None

    unsafe = set()
    for module, tree in trees().items():
        parents = {child: node for node in nodes_of(tree) for child in ast.iter_child_nodes(node)}
        for node in nodes_of(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "simplejson.loads":
                line = [node, *iter_parents(node, parents)]
                if not any(safe(block, child) for child, block in itertools.pairwise(line)):
                    unsafe.add(module)
    assert unsafe == READ_THEIR_OWN_JSON


def iter_parents(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while (parent := parents.get(node)) is not None:
        yield parent
        node = parent


def test_a_library_of_type_checkers_is_not_imported_at_run_time() -> None:
    for tree in trees().values():
        guarded = {
            id(inner)
            for node in nodes_of(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        imports = (node for node in nodes_of(tree) if isinstance(node, ast.ImportFrom))
        assert all(id(node) in guarded for node in imports if node.module == "typing_extensions")


# What only `core.machine` takes from Python's modules, so that a simulator can stand in for the machine. What is left
# of `time` formats, and what is left of `queue` are its exceptions.
OF_THE_MACHINE = {
    "time": {
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "process_time", "thread_time", "sleep",
        "clock_gettime",
    },
    "threading": {"*"},
    "queue": {"Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"},
    "random": {"*"},
    "secrets": {"*"},
}  # fmt: skip
# They are the outside of a process, of which a simulated fleet has none.
NOT_SIMULATED = {"cli", "web", "system"}
ON_ITS_OWN = {"brokers.redis.server.server_guardian"}  # a program that imports nothing of the package


def test_time_threads_and_chance_come_from_one_module() -> None:
    found = {
        f"{module}: {ast.unparse(node)}"
        for module, tree in trees().items()
        for node in nodes_of(tree)
        if module.partition(".")[0] not in NOT_SIMULATED
        and not module.endswith((".views", ".commands"))
        and module not in ("core.machine", *ON_ITS_OWN)
        if isinstance(node, ast.Attribute | ast.ImportFrom)
        for of, names in [_taken(node)]
        if names & OF_THE_MACHINE.get(of, set()) or (names and "*" in OF_THE_MACHINE.get(of, ()))
    }
    assert found == set()


def test_no_default_keeps_a_function_of_the_machine() -> None:
    """It would be the real machine's for ever: a default that asks it is a lambda."""
    found = {
        f"{module}: {ast.unparse(default)}"
        for module, tree in trees().items()
        for node in nodes_of(tree)
        for default in _defaults(node)
        if isinstance(default, ast.Attribute) and ast.unparse(default).startswith("machine.")
    }
    assert found == set()


# Why a module of the brokers, the features or the engine asks this machine's wall clock, which may be minutes off that
# of the server. Else a decision is by the server's time: in the step on the server, or by `Clock.wall`.
OF_THIS_MACHINE: dict[str, set[str]] = {
    "the clock of the server is compared with it": {"runtime.alive.heartbeat", "brokers.redis.server.checks"},
    "there is no other clock: the server tells no time, or there is no server": {
        "brokers.absent",
        "brokers.disque.settlement",
        "brokers.disque.transport",
        "brokers.memory.state",
        "brokers.rabbitmq.settlement",
        "brokers.rabbitmq.transport",
        "features.delays.api",
        "features.delays.sqlite",
    },
    "people read the time, or an age that they read is counted": {
        "brokers.redis.admin.line_jobs",
        "brokers.redis.admin.moved_jobs",
        "brokers.redis.admin.queue_list",
        "brokers.redis.admin.set_jobs",
        "brokers.redis.queues.lines",
        "brokers.redis.queues.settlement",  # since when a job is parked or posted, and the day of the run statistics
        "brokers.redis.queues.transport",  # since when a job is parked
        "features.batches.findings",
        "features.iteration.redis_part",
        "features.limits.redis",
        "features.periodic.redis",
        "features.standby.elector",
        "features.standby.follower_report",
        "features.unique.redis",
        "features.unique.redis_part",
    },
    "it bounds a life of a day or longer, or picks what is shown": {
        "features.batches.redis",
        "features.cancelling.redis",
        "features.chains.redis",
        "features.tracking.redis",
        "features.tracking.redis_part",
    },
    "processes of other programs write the times of their own clocks": {
        "brokers.redis.fleet.process_list",
        "brokers.redis.neighbours",
    },
}


def test_the_wall_clock_of_this_machine_is_asked_only_for_a_reason() -> None:
    found = {
        module
        for module, tree in trees().items()
        for node in nodes_of(tree)
        if module.startswith(("brokers.", "features.", "runtime.")) and not module.endswith((".views", ".commands"))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "machine.time"
    }
    assert found == {module for modules in OF_THIS_MACHINE.values() for module in modules}


def _defaults(node: ast.AST) -> list[ast.expr | None]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [*node.args.defaults, *node.args.kw_defaults]
    return [one.value for one in node.body if isinstance(one, ast.AnnAssign)] if isinstance(node, ast.ClassDef) else []


def _taken(node: ast.Attribute | ast.ImportFrom) -> tuple[str, set[str]]:
    """A module, and the names that the node takes of it."""
    if isinstance(node, ast.ImportFrom):
        return node.module or "", {alias.name for alias in node.names}
    return ast.unparse(node.value), {node.attr}


def test_only_modules_that_end_their_threads_start_threads() -> None:
    starters = {
        module
        for module, tree in trees().items()
        for node in nodes_of(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("threading.Thread", "machine.Thread", "Thread")
    }
    # The threads of `daemon` start and stop partitions, and `stop` joins them.
    # The launcher's thread runs the hooks of a drain, which must not hold up the stop. The thread of `parent_link`
    # reads messages of the parent until the process ends. The thread of `output` writes log lines until then, and the
    # end of the process does not wait for it. That of `listener` ends when its broker is closed, or nobody listens. The
    # thread of `health_handlers` runs functions of the user's, for which the end of the process does not wait either.
    # The keeper of Disque ends when its broker is closed, which waits for it. The thread of a `connection` to RabbitMQ
    # ends with it. A `store_watch` and the `service_probe` are ended by their broker, which waits for them.
    # The threads of `snapshots` compute one value each, for a page.
    assert starters == {
        "brokers.disque.keeper", "brokers.redis.driver.listener", "brokers.rabbitmq.connection",
        "brokers.two_servers.service_probe", "brokers.two_servers.store_watch", "runtime.service", "system.lifecycle",
        "runtime.launcher", "runtime.daemon", "system.parent_link", "web.server", "system.output",
        "runtime.alive.health_handlers", "web.site.snapshots",
    }  # fmt: skip


def test_no_loop_sleeps_past_a_stop() -> None:
    """A loop waits on an Event, which `stop` sets."""
    sleepers = {
        module
        for module, tree in trees().items()
        for node in nodes_of(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "machine.sleep", "sleep")
        if ast.unparse(node) != "machine.sleep(0)"  # a yield
    }
    # The modules of EMBEDDED wait for a server before there is anything to stop. A service sleeps after a fault in its
    # own code. An exchange with a cluster sleeps for two seconds at most. A worker with a suspect looks at the stop
    # after each sleep of some milliseconds. A log line without room waits for a second. A worker that waits until its
    # lease is confirmed has a time limit. One whose server is away sleeps for half a second before it gives a job back.
    # A job that has ended waits some milliseconds for a watchdog that reports it. The rungs sleep for a second before
    # one gives back a job that waits for a lock and cannot stand in the schedule.
    assert sleepers <= {
        *EMBEDDED,
        "links.time_limit",
        "brokers.redis.driver.redirects",
        "runtime.running.rungs",
        "runtime.alive.lease",
        "runtime.running.runs_with_clues",
        "runtime.service",
        "runtime.running.quarantine",
        "system.output",
    }


# --- classes


def test_no_named_tuple_has_another_base() -> None:
    """The oldest Python, 3.10, refuses that when the module is imported."""
    bases = {
        f"{module}.{owner.name}": [ast.unparse(base) for base in owner.bases]
        for module, tree in trees().items()
        for owner in nodes_of(tree)
        if isinstance(owner, ast.ClassDef)
    }
    assert {owner: of for owner, of in bases.items() if "NamedTuple" in of and len(of) > 1} == {}


def test_every_module_has_a_docstring() -> None:
    assert [module for module, tree in trees().items() if not ast.get_docstring(tree)] == []


@pytest.mark.parametrize("folder", ["brokers", "brokers.disque", "brokers.rabbitmq", "brokers.two_servers"])
def test_the_docstring_of_a_folder_of_brokers_says_what_each_file_holds(folder: str) -> None:
    names = {name.removeprefix(f"{folder}.") for name in MODULES if name.startswith(f"{folder}.")}
    about = ast.get_docstring(trees()[folder]) or ""
    assert {name for name in names if "." not in name and f"`{name}`" not in about} == set()


# --- the public names


def test_the_public_names_are_sorted_and_the_package_assigns_no_others() -> None:
    # Constants first, as the linter sorts them.
    assert goworkers_py.__all__ == sorted(goworkers_py.__all__, key=lambda name: (not name.isupper(), name))
    assigned = set()
    body = trees()["goworkers_py"].body
    lazily = [inner for node in body if isinstance(node, ast.If) for inner in node.body]
    for node in [*body, *lazily]:
        if isinstance(node, ast.ImportFrom):
            assigned |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            assigned |= {ast.unparse(target) for target in node.targets}
    others = {"__all__", "__version__", "_early_signals", "_remember", "TYPE_CHECKING"}
    assert assigned - others == set(goworkers_py.__all__)


# A program that pushes imports these when it first uses them.
NOT_OF_A_PRODUCER = {"admin", "cli", "delays", "runtime", "system", "testing", "web"}
PARTS_OF_FEATURES = {"admin", "api", "commands", "end", "memory", "push", "redis", "run", "service", "views"}
# The first notes the signals of a daemon that is importing. A push hints the second.
OF_EVERY_PROGRAM = {"system.early_signals", "runtime.scheduling.due_hints"}
# For each feature its entry and its options, and once those of all.
MOST_MODULES = 78 + 2 * len(features.FEATURES)


@pytest.mark.server
def test_a_program_that_pushes_loads_no_daemon() -> None:
    looked = "import sys, goworkers_py; print(*(name for name in sys.modules if name.startswith('goworkers_py')))"
    done = subprocess.run([sys.executable, "-c", looked], check=True, capture_output=True, text=True)
    found = {name.removeprefix("goworkers_py.") for name in done.stdout.split()}
    assert len(found) <= MOST_MODULES
    modules = {name for name in found if MODULES[name].name != "__init__.py"} - OF_EVERY_PROGRAM
    assert {name for name in modules if name.partition(".")[0] in NOT_OF_A_PRODUCER} == set()
    of_features = {name for name in modules if name.startswith("features.")}
    assert {name for name in of_features if name.rpartition(".")[2] in PARTS_OF_FEATURES} == set()


@pytest.mark.server
def test_a_program_that_runs_no_tests_does_not_import_the_test_modes() -> None:
    looked = "import sys, goworkers_py; assert 'goworkers_py.testing' not in sys.modules; goworkers_py.testing.fake"
    subprocess.run([sys.executable, "-c", looked], check=True)


@pytest.mark.parametrize(
    "name",
    [
        "job", "current_message", "configure", "process", "middleware", "before_start", "during_drain", "enqueue",
        "enqueue_in", "enqueue_at", "enqueue_with_options", "EnqueueOptions", "stats_server", "run", "start", "quit",
    ],
)  # fmt: skip
def test_each_documented_name_is_public(name: str) -> None:
    assert name in goworkers_py.__all__
    assert getattr(goworkers_py, name) is not None


@pytest.mark.parametrize("name", ["enqueue", "enqueue_in", "enqueue_at", "enqueue_bulk", "__call__"])
def test_a_job_has_every_documented_way_to_push_it(name: str) -> None:
    assert callable(getattr(Job, name))


def test_the_functions_of_the_package_are_those_of_one_default_app() -> None:
    assert isinstance(goworkers_py.app, App)
    assert goworkers_py.enqueue == goworkers_py.app.enqueue
    assert goworkers_py.middleware is goworkers_py.app.middleware


# --- keys


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text in a module, including the fixed parts of f-strings, without docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes_of(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


# Texts that occur only in names of keys. The access rules are patterns of keys.
_OF_KEYS = re.compile(r"^(queue|stat|pyworkers):(?! )|:inprogress")


def test_no_key_is_spelled_outside_of_keys() -> None:
    of_features = [f"features.{name}.{module}" for name in FEATURES for module in ("access", "redis_part")]
    allowed = {"brokers.redis.keys", "brokers.redis.server.access", *of_features}
    found = {
        module: {text for text in texts(tree) if _OF_KEYS.search(text)}
        for module, tree in trees().items()
        if module not in allowed
    }
    assert {module: spelled for module, spelled in found.items() if spelled} == {}


def test_keys_that_are_ordinary_words_are_few() -> None:
    """The search above cannot tell such keys from names of fields and options. The next search can."""
    fixed = {key for name, key in vars(Keys()).items() if name != "prefix"}
    assert {key for key in fixed if not _OF_KEYS.search(key)} == {
        "queues", "schedule", "retry", "dead", "paused", "processes", "process_cleanup",
    }  # fmt: skip


def test_no_command_is_sent_with_a_key_spelled_beside_it() -> None:
    """In ("HGETALL", key) the key is a variable, not a text."""
    for node in (node for tree in trees().values() for node in nodes_of(tree)):
        words = node.elts if isinstance(node, ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("environ.get", "getenv")):
            continue
        if len(words) < 2 or not isinstance(words[0], ast.Constant) or not isinstance(words[0].value, str):
            continue
        if words[0].value.isupper() and words[0].value not in _WITHOUT_KEYS:
            assert not isinstance(words[1], ast.Constant | ast.JoinedStr), ast.unparse(node)


_WITHOUT_KEYS = {"CLIENT", "CLUSTER", "EVAL", "EVALSHA", "CONFIG", "INFO", "PING", "SHUTDOWN", "REPLICATE"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_given_its_keys(script: Path) -> None:
    code = re.sub(r"--.*", "", script.read_text("utf-8"))
    calls = re.findall(r"redis\.p?call\(([^,()]+|[^,]+\bor\b[^,]+)(?:,\s*([^,()\[]+(?:\[.*?\])?))?", code)
    if script.name == "fenced_commands.lua":
        return  # its commands come with the call, and `fencing` declares their keys
    from_keys = set(re.findall(r"local ([A-Za-z_, ]+) =\s+KEYS", code))
    names = {name.strip() for line in from_keys for name in line.split(",")}
    # Names in capitals that a fragment is given are keys of the script: the head of each script says which.
    names |= {name for name in split(script.read_text("utf-8"))[1] if name.isupper()}
    # Parameters of functions that are called with KEYS, and what returns one of KEYS.
    passed_on = {
        "list",
        "key",
        "batch_key",
        "day_key",
        "receipt",
        "job.goal",
        "set",
        # The keys of a slot, which `slot_at` of limit.lua makes of KEYS.
        *(f"slot.{name}" for name in ("settings", "places", "line", "due", "lines", "schedule")),
        "hash",
        "groups",
        "registry",
        *({"goal"} if script.name == "publish_unique.lua" else ()),
        *({"schedule"} if script.name == "replace.lua" else ()),
        *({"locked", "last", "queued", "primed", "keys[6]", "keys[7]"} if script.name == "ruby_lock.lua" else ()),
        *({"key_of_lease"} if script.name == "holder.lua" else ()),
    }
    for command, key in calls:
        if command in ("'TIME'", "'PUBLISH'") or (script.name, key.strip()) == _HOLDERS_LEASE:
            continue
        if key.startswith(("place.", "place[", "own.")) and script.stem in _OF_PLACES:
            continue  # `batch.place` and `chain.place` return only what `key_at` has returned
        assert key.startswith(("KEYS[", "key_at")) or key in names | passed_on, f"{command}, {key}"


_OF_PLACES = {"batch", "chain", "batch_check", "step_batch", "step_chain"}
# The lease of the process that holds a process name: the script knows its key only after it has read the holder.
_HOLDERS_LEASE = ("beat.lua", "leases .. holder")


def test_no_payload_goes_through_luas_json() -> None:
    """Lua's JSON breaks large numbers and turns [] into {}. limit.lua reads the header of an entry in a line, which is
    ours."""
    assert [script.name for script in SCRIPTS if "cjson" in script.read_text("utf-8")] == ["limit.lua"]
