"""Writes a job as a test: its arguments, and the error that it had.

Strangers write payloads. So their texts come into the file as literals of Python, or as comments of one line. The class
of an error is named only if the program has imported its module already.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import chain
from keyword import iskeyword
from typing import Any

import goworkers_py
from goworkers_py.api.job import Job
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.job_options import CodeOptions, PushOptions, options_of
from goworkers_py.core.errors import (
    ArgumentError,
    BrokenOff,
    JobCancelled,
    JobControl,
    NeedsNewerRelease,
    PoisonPill,
    RetryJob,
    TimeLimitExceeded,
    WorkersError,
)
from goworkers_py.core.escaping import one_line
from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.features import FEATURES
from goworkers_py.observe.log_format import time_text
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire import payload
from goworkers_py.wire.failure import unpack_backtrace
from goworkers_py.wire.hints import own_function
from goworkers_py.wire.message import Message, epoch
from goworkers_py.wire.stored_job import StoredJob

LINE_LENGTH = 120
# Characters of the arguments in the file, of a comment, of the text by which an error is known; lines of a backtrace.
LONGEST_ARGUMENTS, LONGEST_COMMENT, LONGEST_MATCH, MOST_FRAMES = 200_000, 200, 90, 20

# These end a run from outside of the job's code: no test meets them.
FROM_OUTSIDE = (TimeLimitExceeded, PoisonPill, BrokenOff, JobCancelled, NeedsNewerRelease)

# Fields of a payload that a push writes, or a failure, or other programs for themselves. All others are the user's.
_NOT_OF_USERS = {
    "class", "args", "kwargs", "queue", "created_at", "enqueued_at", "failed_at", "retried_at", "error_class",
    "error_message", "error_backtrace", "wrapped", "display_class", "bid", "recovered", "pyworkers", "encrypt",
    "unfit_since", *(field for feature in FEATURES for field in feature.fields_until_begun),
}  # fmt: skip

_TAKEN = {"re", "pytest", "workers", "pyworkers_fake"}

MENDED = "the job does not fail any more: take `pytest.raises` away, and keep `pyworkers_fake.run_all()`"
HERE = "# Make here what the job finds in production: rows, files, answers of other services."


class _Error(NamedTuple):
    """How the test names the error."""

    kind: type[BaseException] | None  # None: the class is not known here
    name: str
    text: str  # of one line
    is_of_ruby: bool


@dataclass
class _File:
    modules: set[str] = field(default_factory=set)  # lines that import modules
    names: dict[str, set[str]] = field(default_factory=dict)  # by the module from which they are imported
    comments: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)

    def use(self, module: str, name: str) -> str:
        """Imports a name of a module. By the module, where the name means something else already."""
        others = {other for known, names in self.names.items() if known != module for other in names}
        if hasattr(builtins, name) or name in others or name in _TAKEN:
            self.modules.add(f"import {module}")
            return f"{module}.{name}"
        self.names.setdefault(module, set()).add(name)
        return name

    def text(self, name: str) -> str:
        own = [line for line in self.modules if line == "import re"]
        others = sorted(self.modules.difference(own))
        others += [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self.names.items())]
        groups = [[*map(_comment, self.comments)], own, others]
        head = "\n\n".join("\n".join(group) for group in groups if group)
        body = "\n".join(f"    {line}" for line in "\n".join(self.body).split("\n"))
        return f"{head}\n\n\ndef {name}(pyworkers_fake):\n{body}\n"


def as_test(job: StoredJob, registry: Registry, modules: Sequence[str] = ()) -> str:
    """The text of a test file. `modules` declare the jobs. Raises WorkersError for a job that no test can push."""
    message = _readable(job)
    spec = registry.spec_of(message)
    file = _File()
    file.comments += _story(message)
    push = _push(file, message, spec, modules)
    error = _error_of(message)
    file.body += [HERE, push]
    if spec is None:
        file.comments += ["", f"No module of `require` declares {message.job_class}: import the one that does."]
        file.modules.add("import pytest")
        file.body += ["if not pyworkers_fake.run_all():", _fail("no code has run: import the module of the job")]
    else:
        file.body += _run(file, error)
    return file.text(_name(message, spec))


def _readable(job: StoredJob) -> Message:
    message = job.message
    if message is None or job.original is not None:
        raise WorkersError(
            f"job {job.jid} cannot be read as a job, so no code runs it: {job.escaped[:LONGEST_COMMENT]}"
        )
    try:
        payload.check_args(message.args if message.args is not None else [], "its arguments")
        payload.check_kwargs(message.kwargs)
    except ArgumentError as error:
        raise WorkersError(f"no test can push job {message.jid}: {error}") from None
    return message


def _story(message: Message) -> Iterator[str]:
    """Tells people what is known of the job."""
    yield f"Job {message.jid} of the class {message.job_class}. Written by `pyworkers replay`."
    created_at, count = epoch(message.get("created_at")), message.retry_count
    yield f"queue {message.queue or message.get('queue')}" + (f", pushed {time_text(created_at)}" if created_at else "")
    if message.get("error_class") is None:
        yield "It has not failed yet."
        return
    at = epoch(message.get("retried_at")) or epoch(message.get("failed_at"))
    often = "once" if not count else f"{count + 1} times"
    yield f"It has failed {often}{f', at last at {time_text(at)}' if at else ''}:"
    yield from _lines(f"{message.get('error_class')}: {message.get('error_message')}", MOST_FRAMES)
    if frames := unpack_backtrace(message.get("error_backtrace")):
        yield "Backtrace, the innermost call first:"
        yield from (f"    {frame}" for frame in frames[:MOST_FRAMES])
    if message.get("encrypt"):
        yield "Sidekiq has encrypted the last argument. The job gets it so, in Python too."


def _lines(text: str, most: int) -> Iterator[str]:
    lines = text.splitlines() or [""]
    yield from (f"    {line}" for line in lines[:most])
    if len(lines) > most:
        yield f"    ... and {len(lines) - most} more lines"


def _comment(text: str) -> str:
    line = one_line(text)
    return f"# {line if len(line) <= LONGEST_COMMENT else f'{line[:LONGEST_COMMENT]}...'}".rstrip()


# --- the push


def _push(file: _File, message: Message, spec: JobSpec | None, modules: Sequence[str]) -> str:
    """By the job's function where the arguments are those of a call; else by its class, with the arguments as JSON."""
    options = _options(message, spec)
    args, kwargs = message.args or [], message.kwargs
    found = _importable(spec) if spec is not None else None
    if found is not None and spec is not None and _fits(spec, args, kwargs):
        module, name = found
        name = file.use(module, name)
        job = _call(f"{name}.set", [], options) if options else name
        return _checked(_call(f"{job}.enqueue", args, kwargs))
    file.modules.add("import goworkers_py as workers")
    own = _module_of(spec) if spec is not None else ""
    file.modules |= {f"import {module}  # noqa: F401 (declares jobs)" for module in ([own] if own else modules)}
    place = [message.queue or str(message.get("queue") or "default"), message.job_class, args]
    options.pop("queue", None)
    if not options and not kwargs:
        return _checked(_call("workers.enqueue", place, {}))
    code = _Code(_call("workers.EnqueueOptions", [], options))
    return _checked(_call("workers.enqueue_with_options", [*place, code, *([kwargs] if kwargs else [])], {}))


def _checked(text: str) -> str:
    if len(text) > LONGEST_ARGUMENTS:
        raise WorkersError(
            f"the arguments take {len(text):,} characters, and a test may have {LONGEST_ARGUMENTS:,} of them: "
            "`pyworkers replay JID` runs the job without a file"
        )
    return text


def _options(message: Message, spec: JobSpec | None) -> dict[str, Any]:
    """The options that the code of the job, or a middleware, may look at."""
    options: dict[str, Any] = {}
    queue = message.queue or message.get("queue")
    if spec is not None and queue not in (spec.queue, spec.options.get("retry_queue")):
        options["queue"] = queue
    if message.tags and (spec is None or message.tags != spec.options.get("tags")):
        options["tags"] = message.tags
    known = {*_NOT_OF_USERS, *options_of(PushOptions), *options_of(CodeOptions)}
    extra: dict[str, Any] = {}
    for name, value in message.fields.items():
        if name not in known:
            with suppress(ArgumentError):
                EnqueueOptions(extra={name: value})
                extra[name] = value
    if extra:
        options["extra"] = extra
    return options


def _fits(spec: JobSpec, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the JSON of the payload is what a caller of the function writes."""
    if spec.takes_message:
        return False
    try:
        spec.arguments.check(args, kwargs)
        named = all(name.isidentifier() and not iskeyword(name) for name in kwargs)
        return named and spec.arguments.load(args, kwargs) == (args, kwargs)
    except WorkersError:
        return False


def _importable(spec: JobSpec) -> tuple[str, str] | None:
    """The module and the name under which a test can import the job."""
    module = _module_of(spec)
    for name, value in vars(sys.modules.get(module, object)).items():
        if isinstance(value, Job) and value.name == spec.name and value.__wrapped__ is spec.function:
            return module, name
    return None


def _module_of(spec: JobSpec) -> str:
    module = getattr(own_function(spec.function), "__module__", None)
    return module if isinstance(module, str) and module != __package__ and module in sys.modules else ""


# --- the run


def _run(file: _File, error: _Error | None) -> Iterator[str]:
    run = "pyworkers_fake.run_all()"
    if error is None:
        yield run
    elif error.is_of_ruby:
        yield "# It has failed in Ruby. Here the job is expected to end well."
        yield run
    elif error.kind is not None and issubclass(error.kind, FROM_OUTSIDE):
        yield f"# {error.name} came from outside of the job, and no test repeats it."
        yield run
    elif error.kind is not None and issubclass(error.kind, JobControl):
        outcome = "retry" if issubclass(error.kind, RetryJob) else "dead"
        yield f'# The job has raised {error.name}, so `run_all` raises nothing. Write "done" when it is mended.'
        yield f'assert [run.outcome for run in {run}][:1] == ["{outcome}"]'
    else:
        file.modules.add("import pytest")
        if error.kind is None:
            yield _comment(f"The class of the error, {error.name}, is not imported by the job's module.")
        expected = [_name_of(file, error)]
        if error.text:
            file.modules.add("import re")
            expected.append(f"match=re.escape({_literal(error.text)})")
        yield _bracketed("with pytest.raises(", expected, "):", 4)
        yield f"    {run}"
        yield _fail(MENDED)


def _fail(why: str) -> str:
    return f'    pytest.fail("{why}")'


def _error_of(message: Message) -> _Error | None:
    name, text = message.get("error_class"), message.get("error_message")
    if not isinstance(name, str) or not name:
        return None
    first = next(iter(text.splitlines()), "") if isinstance(text, str) else ""
    frames = unpack_backtrace(message.get("error_backtrace"))
    kind = _class_named(name)
    is_of_ruby = "::" in name or any(".rb:" in frame for frame in frames) or (kind is None and "." not in name)
    return _Error(kind, name, first[:LONGEST_MATCH], is_of_ruby)


def _class_named(name: str) -> type[BaseException] | None:
    """Looks only into modules that are imported: a stranger may have written the name."""
    parts = name.split(".")
    for end in range(len(parts) - 1, -1, -1):
        found: Any = sys.modules.get(".".join(parts[:end])) if end else builtins
        for part in parts[end:]:
            found = vars(found).get(part) if isinstance(found, type(sys) | type) else None
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    return None


def _name_of(file: _File, error: _Error) -> str:
    kind = error.kind or Exception
    if kind.__module__ == "builtins":
        return kind.__name__
    if getattr(goworkers_py, kind.__name__, None) is kind:
        file.modules.add("import goworkers_py as workers")
        return f"workers.{kind.__name__}"
    name, _, nested = kind.__qualname__.partition(".")
    return ".".join(filter(None, (file.use(kind.__module__, name), nested)))


def _name(message: Message, spec: JobSpec | None) -> str:
    found = _importable(spec) if spec is not None else None
    name = found[1] if found else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message.job_class)
    parts = [part for part in re.split(r"[^a-zA-Z0-9]+", f"{name} {message.jid[:8]}") if part]
    return "_".join(["test", *parts]).lower()


# --- literals


class _Code(str):
    """Stands in a call as it is."""

    __slots__ = ()


def _call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    parts = chain(map(_literal, args), (f"{key}={_literal(value, len(key))}" for key, value in kwargs.items()))
    return _bracketed(f"{name}(", [*parts], ")", 4)


def _literal(value: Any, indent: int = 0) -> str:
    """A value of JSON as Python writes it, over several lines where one is too long."""
    if isinstance(value, _Code):
        return value
    if isinstance(value, list):
        return _bracketed("[", [_literal(element, indent + 4) for element in value], "]", indent)
    if isinstance(value, dict):
        return _bracketed(
            "{", [f"{_text(key)}: {_literal(element, indent + 4)}" for key, element in value.items()], "}", indent
        )
    if isinstance(value, str):
        return _text(value)
    return repr(value)


def _text(text: str) -> str:
    """In double quotes where that needs no more escapes."""
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted


def _bracketed(begin: str, parts: Sequence[str], end: str, indent: int) -> str:
    line = f"{begin}{', '.join(parts)}{end}"
    if (len(line) + indent < LINE_LENGTH and "\n" not in line) or not parts:
        return line
    inner = "".join(f"\n    {line}" for part in parts for line in f"{part},".split("\n"))
    return f"{begin}{inner}\n{end}"
