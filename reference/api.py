"""docs/api*.md: the names that programs use, with the signatures of their source and their docstrings.

Docstrings are Markdown. They show a name as users type it: `workers.job`. A public name without a docstring is an
error. Signatures are taken from the source and not from the objects, which read differently in each version of Python.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import goworkers_py as workers
import pytest_pyworkers
from goworkers_py import testing, web
from goworkers_py.brokers import contracts
from goworkers_py.core import errors
from goworkers_py.features import FEATURES
from goworkers_py.features.delays import contract as persistences
from goworkers_py.features.delays.contract import Persistence
from goworkers_py.links.chain import Links
from goworkers_py.web.site.access import Access, Grant
from goworkers_py.wire.job_record import Move, Progress
from reference.markdown import GENERATED, Missing, prose, table

# Every function and object of `workers`, by what it is for. `pages` fails if one is missing here.
TOPICS = {
    "Declaring": ["job", "defaults", "process", "periodic", "limit", "partition", "configure"],
    "Pushing": [
        "enqueue", "enqueue_in", "enqueue_at", "enqueue_bulk", "enqueue_with_options", "send", "atomic",
    ],
    "Many jobs": ["batch", "batches", "chain", "parallel", "chains"],
    "In a job": ["current_message", "report"],
    "Looking and changing": ["status", "result", "aresult", "cancel", "inspector"],
    "Around jobs": [
        "middleware", "around", "client_middleware", "on_error", "on_death", "on_cancel", "on_expire",
    ],
    "Around the process": ["before_start", "during_drain", "on_health", "on_lead", "on_follow", "command"],
    "Running": ["run", "start", "quit", "receive", "stats_server"],
    "Others": ["app", "testing"],
}  # fmt: skip

CLASSES: Sequence[type] = (
    workers.App, workers.Job, workers.Signature, workers.EnqueueOptions, workers.Message, workers.Middleware, Links,
    workers.TypedMessage, workers.Receiver, workers.Batch, workers.BatchStatus, type(workers.batches),
    workers.ChainStatus, type(workers.chains), workers.Limit, workers.JobStatus, Progress, Move, workers.Inspector,
    workers.Filter, workers.Target, workers.HealthEvent, workers.LeaderChange, workers.DelayQueue, workers.DelayTask,
    Persistence, workers.MemoryPersistence, workers.RedisPersistence, workers.SQLitePersistence,
)  # fmt: skip

# Public for other modules of the package, and not for programs.
INTERNAL: Mapping[type, Collection[str]] = {
    workers.Job: ["check_home", "client", "target", "write"],
    workers.Message: [
        "as_result", "cancel", "expired", "held", "interrupt", "iteration", "members", "outcome", "raw", "renew",
        "term", "thread", "to_json", "tracked",
    ],
    workers.EnqueueOptions: ["fields", "fields_at", "needs", "over", "replaced", "said"],
    workers.DelayTask: ["from_json", "notes", "packed", "to_json", "to_json_without_due", "unreadable", "with_notes"],
    workers.Filter: ["empty", "fits"],
    workers.Target: ["fits"],
    workers.SQLitePersistence: ["counted", "now", "step"],
    workers.Inspector: ["check_unused_limit"],
    type(workers.batches): ["begin", "hold", "idle", "let_go"],
    type(workers.chains): ["idle"],
}  # fmt: skip
# A persistence does what the contract says. Its own page says what is special about it.
FROM_CONTRACT = (workers.MemoryPersistence, workers.RedisPersistence, workers.SQLitePersistence)


# Classes with one object that programs use: its name is shown instead of theirs.
SHOWN_AS: Mapping[type, str] = {
    type(workers.batches): "workers.batches",
    type(workers.chains): "workers.chains",
    workers.Inspector: "workers.inspector",
    Links: "workers.middleware",
}


def pages() -> Mapping[str, str]:
    return {
        "docs/api.md": "\n".join(_functions()),
        "docs/api-classes.md": "\n".join(_classes()),
        "docs/api-errors.md": "\n".join(_errors()),
        "docs/api-testing.md": "\n".join(_testing_and_web()),
        "docs/api-brokers.md": "\n".join(_contracts()),
    }


def _functions() -> Iterator[str]:
    yield f"{GENERATED}\n\n# API\n"
    yield (
        "Every function of `import goworkers_py as workers`, by what it is for. The functions are methods of the "
        "default App, `workers.app`. A signature shows the types that an editor checks.\n"
    )
    yield (
        "[Classes](api-classes.md) has what they take and return, [errors](api-errors.md) what they raise, and "
        "[tests and pages](api-testing.md) `workers.testing` and `goworkers_py.web`.\n"
    )
    listed = [name for names in TOPICS.values() for name in names]
    if wrong := {name for name in workers.__all__ if name == name.lower()} ^ {*listed}:
        raise Missing(f"TOPICS in reference/api.py and goworkers_py.__all__ differ: {', '.join(sorted(wrong))}")
    for topic, names in TOPICS.items():
        yield f"## {topic}\n"
        for name in names:
            yield from _name(f"workers.{name}", getattr(workers, name))


def _name(shown: str, value: Any) -> Iterator[str]:
    yield f"### {shown}\n"
    if callable(value) and not inspect.isclass(value):
        yield _signature_of(value, shown.rpartition(".")[2])
    of = value if callable(value) or inspect.ismodule(value) else type(value)
    if not callable(value) and of in CLASSES:
        heading = SHOWN_AS.get(of, of.__name__)
        yield f"[What it offers](api-classes.md#{heading.lower().replace('.', '')}).\n"
    yield _doc(of, shown)


def _classes() -> Iterator[str]:
    yield f"{GENERATED}\n\n# Classes\n"
    yield (
        "The classes of `workers`, and of what its functions take and return. The [functions](api.md) come first: most "
        "programs make none of these objects themselves.\n"
    )
    yield (f"`workers.PREVIOUS`: {_first_line(type(workers.PREVIOUS))} See [chains](chains.md).\n")
    public = {getattr(workers, name) for name in workers.__all__ if inspect.isclass(getattr(workers, name))}
    if missing := {one for one in public - {*CLASSES} if not issubclass(one, Exception)}:
        raise Missing(f"CLASSES in reference/api.py lacks {', '.join(sorted(one.__name__ for one in missing))}")
    for one in CLASSES:
        yield f"## {SHOWN_AS.get(one, one.__name__)}\n"
        yield _doc(one, one.__name__)
        if one is workers.App:
            yield "An App has every function of [workers](api.md) as a method, and `app.inspector`.\n"
        elif one in FROM_CONTRACT:
            yield _signature_of(one.__init__, one.__name__)
        else:
            yield from _members(one)


def _members(cls: type) -> Iterator[str]:
    hidden = INTERNAL.get(cls, ())
    rows = [row for row in _fields(cls) if row[0].strip("`") not in hidden]
    if rows:
        yield table(["field", "type", "what it is"], rows) + "\n"
    for name, member in _methods(cls):
        if name in hidden:
            continue
        function: Any = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        yield f"### {SHOWN_AS.get(cls, cls.__name__)}.{name}\n"
        yield _signature_of(function, name, of_class=True, is_property=isinstance(member, property))
        yield _doc(function, f"{cls.__name__}.{name}")


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Those of the class and of its bases in this package, in the order of the source, public ones only."""
    for base in cls.__mro__:
        if base.__module__.startswith("goworkers_py"):
            for name, member in vars(base).items():
                taken = callable(member) or isinstance(member, (property, classmethod, staticmethod))
                is_field = inspect.isclass(member) or name in _field_names(cls)
                overridden = inspect.getattr_static(cls, name) is not member
                if taken and not name.startswith("_") and not is_field and not overridden:
                    yield name, member


def _field_names(cls: type) -> Collection[str]:
    return [row[0].strip("`") for row in _fields(cls)]


@cache
def _fields(cls: type) -> Sequence[Sequence[str]]:
    """The fields of a dataclass or a tuple, and of its bases that are dataclasses. A comment behind a field, or above
    it, says what it is."""
    if not (hasattr(cls, "__dataclass_fields__") or hasattr(cls, "_fields")) or cls is workers.TypedMessage:
        return []
    bases = (base for base in cls.__mro__[:0:-1] if "__dataclass_fields__" in vars(base))
    return [row for one in (*bases, cls) for row in _own_fields(one)]


def _own_fields(cls: type) -> Sequence[Sequence[str]]:
    source = textwrap.dedent(inspect.getsource(cls))
    lines = source.splitlines()
    [node] = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    rows = []
    for field in node.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        assert field.end_lineno is not None
        behind = re.search(r"#\s(?!noqa)(.*)$", lines[field.end_lineno - 1])
        above = [line.strip("# ") for line in _comment_above(lines, field.lineno - 1)]
        about = behind[1] if behind else " ".join(above)
        if not field.target.id.startswith("_"):
            rows.append([f"`{field.target.id}`", f"`{ast.unparse(field.annotation)}`", prose(about)])
    return rows


def _comment_above(lines: Sequence[str], place: int) -> Sequence[str]:
    begin = place
    while begin and lines[begin - 1].strip().startswith("# "):
        begin -= 1
    return lines[begin:place]


def _errors() -> Iterator[str]:
    yield f"{GENERATED}\n\n# Errors\n"
    yield (
        "Every exception of `workers`. All are subclasses of `workers.WorkersError`, so one `except` catches them. "
        "[Jobs](jobs.md) says what becomes of a job that raises.\n"
    )
    tree = textwrap.dedent((errors.__doc__ or "").partition("\n\n")[2])
    abouts = dict(re.findall(r"(\w+) {2,}(\S.*)$", tree, re.MULTILINE))
    public = [getattr(workers, name) for name in workers.__all__ if inspect.isclass(getattr(workers, name))]
    for error in (one for one in public if issubclass(one, Exception)):
        about = abouts.get(error.__name__, "")
        own = inspect.cleandoc(error.__dict__.get("__doc__") or "")
        if not about and not own:
            raise Missing(f"{error.__name__} stands neither in the tree of core/errors.py nor has a docstring")
        bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
        sentence = f"{about[:1].upper()}{about[1:]}." if about else ""
        yield f"## {error.__name__}\n"
        yield "\n\n".join(part for part in (f"A subclass of {bases}.", sentence, prose(own)) if part) + "\n"


def _testing_and_web() -> Iterator[str]:
    yield f"{GENERATED}\n\n# Tests and pages\n"
    yield (
        "`workers.testing` for tests without a server, the fixtures for pytest, and `goworkers_py.web` for the pages "
        "inside of an application. [Testing](testing.md) and [pages](web.md) show how they are used.\n"
    )
    yield "## workers.testing\n"
    for name in testing.__all__:
        value = getattr(testing, name)
        if not inspect.isclass(value):
            yield from _name(f"workers.testing.{name}", value)
    for name in testing.__all__:
        value = getattr(testing, name)
        if inspect.isclass(value):
            yield f"## {name}\n"
            yield _doc(value, name)
            yield from _members(value)
    yield "## Fixtures for pytest\n"
    yield table(["fixture", "what it is"], [[f"`{name}`", _fixture(name)] for name in _fixtures()]) + "\n"
    yield "## goworkers_py.web\n"
    yield from _name("goworkers_py.web.application", web.application)
    for one in (Access, Grant):
        yield f"### {one.__name__}\n"
        yield _doc(one, one.__name__)


def _fixtures() -> Iterator[str]:
    yield from (name for name in vars(pytest_pyworkers) if name.startswith("pyworkers_"))


def _fixture(name: str) -> str:
    tree = ast.parse(inspect.getsource(pytest_pyworkers))
    [function] = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name]
    return prose(" ".join((ast.get_docstring(function) or "").split()))


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _contracts() -> Iterator[str]:
    yield f"{GENERATED}\n\n# Contracts of a broker\n"
    yield (
        "These are the parts of a broker and their duties, for authors of a broker. "
        "[Writing a broker](internals/writing-a-broker.md) says which parts are needed, and shows a whole one. "
        "`tests/contract` is a suite that every broker must pass.\n"
    )
    of_engine = {module.__name__.rpartition(".")[2]: module for module in _modules(contracts)}
    of_features = {
        _words(one.contract): import_module(f"goworkers_py.features.{one.name}.contract")
        for one in FEATURES
        if one.contract
    }
    for title, module in {**of_engine, **of_features, "persistence": persistences}.items():
        yield f"## {title}\n"
        yield _doc(module, module.__name__)
        for cls in _classes_of(module):
            yield f"### {cls.__name__}\n"
            if own := _own_doc(cls):
                yield prose(inspect.cleandoc(own)) + "\n"
            if rows := _fields(cls):
                yield table(["field", "type", "what it is"], rows) + "\n"
            if stubs := [_stub(member, name) for name, member in _methods(cls)]:
                yield "```pyi\n" + "\n\n".join(stubs) + "\n```\n"


def _stub(member: Any, name: str) -> str:
    is_property = isinstance(member, property)
    function = member.fget if is_property else getattr(member, "__func__", member)
    text = _signature(function, name, of_class=True, is_property=is_property)
    about = inspect.cleandoc(function.__doc__ or "")
    return text + ("\n" + textwrap.indent(about, "    # ", lambda line: True) if about else "")


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in iter_modules(package.__path__):
        yield import_module(f"{package.__name__}.{found.name}")


def _classes_of(module: ModuleType) -> Iterator[type]:
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield value


def _first_line(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0]


def _doc(value: Any, shown: str) -> str:
    text = _own_doc(value)
    if not text:
        raise Missing(f"{shown} has no docstring")
    return prose(inspect.cleandoc(text)) + "\n"


def _own_doc(value: Any) -> str:
    """Empty for a class that has none but that of its base, or one that Python has made for it."""
    text = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    # Python 3.15 gives a dataclass an object that writes one.
    if not isinstance(text, str) or text == "An enumeration.":
        return ""
    return "" if text.startswith(f"{getattr(value, '__name__', '')}(") else text


def _signature_of(function: Callable[..., Any], name: str, of_class: bool = False, is_property: bool = False) -> str:
    is_method = of_class or inspect.ismethod(function) or name[:1].isupper()
    return f"```pyi\n{_signature(function, name, is_method, is_property)}\n```\n"


def _signature(function: Any, name: str, of_class: bool, is_property: bool) -> str:
    node = _node(inspect.unwrap(getattr(function, "__func__", function)))
    arguments = node.args
    static = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list)
    if of_class and not static:
        first = arguments.posonlyargs or arguments.args
        del first[0]
    manager = any("contextmanager" in ast.unparse(one) for one in node.decorator_list)
    returns = ast.unparse(node.returns) if node.returns else ""
    if manager:
        returns = re.sub(r"^(?:Async)?Iterator\[(.*)\]$", r"ContextManager[\1]", returns)
    if is_property:
        return f"{name}: {returns}"
    given = _split(ast.unparse(arguments).replace("lambda :", "lambda:"))  # as Python 3.10 writes it
    result = f" -> {returns}" if returns and node.name != "__init__" else ""
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "class" if node.name == "__init__" else "def"
    line = f"{word} {name}({', '.join(given)}){result}"
    if len(line) <= 100:
        return line
    return f"{word} {name}(\n" + "".join(f"    {one},\n" for one in given) + f"){result}"


def _split(arguments: str) -> Sequence[str]:
    """At the commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in arguments:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [re.sub(r"^(\w+: [^=]+)=", r"\1 = ", part.strip()).replace("'", '"') for part in parts if part.strip()]


def _node(function: Any) -> Any:
    [node] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    return node
