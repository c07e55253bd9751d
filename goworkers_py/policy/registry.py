"""The registry: which Python code runs a job, by its class or by a handler for its whole queue."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from goworkers_py.config.job_options import NOTHING_SAID, CodeOptions
from goworkers_py.core.errors import ConfigError, UnknownJob
from goworkers_py.core.values import dataclass
from goworkers_py.features import FEATURES, resumer_of
from goworkers_py.observe.job_log_levels import level_named
from goworkers_py.policy.arguments import Arguments
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import Message

QueueHandler = Callable[[Message], Any]
NO_MARKS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A function that runs jobs, with its class on the wire and the options in its code."""

    name: str
    function: Callable[..., Any]
    queue: str = "default"
    options: CodeOptions = field(default_factory=CodeOptions)  # must not be changed
    takes_message: bool = False  # the function gets the message, not the args
    own: CodeOptions = field(default_factory=CodeOptions, compare=False)  # without the defaults of the application
    arguments: Arguments = field(init=False, compare=False, repr=False)
    # What the program declares for the job beside its function, by the name of the feature. While modules are imported.
    of_features: dict[str, Any] = field(init=False, compare=False, repr=False, default_factory=dict)
    # The name of the feature that ends its runs early, and goes on later; empty: none, see `Feature.resumes`.
    resumed_by: str = field(init=False, compare=False, repr=False)
    marks: frozenset[str] = field(init=False, compare=False, repr=False)  # names of features, see `Feature.marks_class`
    needs: frozenset[str] = field(init=False, compare=False, repr=False)  # of the worker, see `wire.needs`

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", Arguments(self.name, self.function))
        resumer = None if self.takes_message else resumer_of(self.function)
        object.__setattr__(self, "resumed_by", "" if resumer is None else resumer.name)
        object.__setattr__(
            self, "marks", frozenset(feature.name for feature in FEATURES if feature.marks_class(self.options))
        )
        of_features = {need for feature in FEATURES for need in feature.needs_of_class(self.options)}
        object.__setattr__(self, "needs", frozenset({*of_features, *(() if resumer is None else resumer.needs)}))


class Registry:
    """Filled while modules are imported, then read by the workers, so it has no lock. Entries are never removed."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobSpec] = {}
        self._handlers: dict[str, JobSpec] = {}
        self.any_timeouts = False
        self.any_log_levels = False
        self.any_marks = False
        self.of_features: dict[str, Any] = {}  # declarations of the program beside its jobs, by the name of the feature

    def add(self, spec: JobSpec) -> None:
        known = self._jobs.get(spec.name)
        if known is not None and not is_same_code(known.function, spec.function):
            raise ConfigError(
                f"two jobs are called {spec.name!r}: {_full_name(known.function)} and {_full_name(spec.function)}; "
                "give one of them another name: @job('Name')"
            )
        self._jobs[spec.name] = spec
        self.any_timeouts |= "timeout" in spec.options
        self.any_log_levels |= "log_level" in spec.options
        self.any_marks |= bool(spec.marks)

    def handle(self, queue: str, handler: QueueHandler, options: CodeOptions = NOTHING_SAID) -> None:
        self._handlers[queue] = JobSpec(queue, handler, queue, options, takes_message=True)
        self.any_timeouts |= "timeout" in options
        self.any_marks |= bool(self._handlers[queue].marks)

    def specs(self) -> Iterable[JobSpec]:
        return self._jobs.values()

    def job(self, name: str) -> JobSpec | None:
        return self._jobs.get(name)

    def jobs_of(self, queue: str) -> list[JobSpec]:
        """The jobs whose code names this queue."""
        return [spec for spec in self._jobs.values() if spec.queue == queue]

    def find(self, message: Message) -> JobSpec:
        spec = self.spec_of(message)
        if spec is None:
            raise UnknownJob(_unknown(message))
        return spec

    def options_for(self, message: Message) -> CodeOptions:
        spec = self.spec_of(message)
        return spec.options if spec else NOTHING_SAID

    def spec_of(self, message: Message) -> JobSpec | None:
        handler = self._handlers.get(message.queue)
        return handler if handler and message.job_class != enclosure.CLASS else self._jobs.get(message.job_class)

    def timeout_for(self, message: Message) -> float | None:
        return self.options_for(message).get("timeout")

    def may_be_interrupted(self, message: Message) -> bool:
        return self.options_for(message).get("interrupt") is not False

    def is_interrupted_by_cancel(self, message: Message) -> bool:
        """False also where runs end early: such a run looks for a cancel itself."""
        spec = self.spec_of(message)
        return spec is None or (spec.options.get("interrupt") is not False and not spec.resumed_by)

    def log_level_for(self, message: Message) -> int | None:
        if "log_level" in message.fields:
            return level_named(message.get("log_level"))
        return level_named(self.options_for(message).get("log_level"))

    def marks_of(self, message: Message) -> frozenset[str]:
        """The names of the features whose business the job is by its class."""
        spec = self.spec_of(message)
        return NO_MARKS if spec is None else spec.marks

    @property
    def any_handlers(self) -> bool:
        return bool(self._handlers)

    def handled(self, queue: str) -> bool:
        """Whether one handler runs every job of the queue, whatever its class."""
        return queue in self._handlers

    def handler(self, queue: str) -> QueueHandler | None:
        spec = self._handlers.get(queue)
        return None if spec is None else spec.function

    def with_priorities(self) -> dict[str, str]:
        """The queues of the jobs whose code names a priority, each with such a job."""
        return {spec.queue: spec.name for spec in self._jobs.values() if spec.options.get("priority")}

    def names(self) -> list[str]:
        return sorted(self._jobs)

    def names_in(self, queue: str) -> list[str]:
        """The classes whose code names this queue, for all runs or for retries."""
        return sorted(
            name for name, spec in self._jobs.items() if queue in (spec.queue, spec.options.get("retry_queue"))
        )

    def queues(self, partition: str = "") -> list[str]:
        """Every queue of a partition that registered code names, for all runs or for retries."""
        specs = [spec for spec in self._jobs.values() if (spec.options.get("partition") or "") == partition]
        of_retries = {queue for spec in specs if (queue := spec.options.get("retry_queue"))}
        handled = () if partition else self._handlers  # see `without_handlers`
        return sorted({spec.queue for spec in specs} | of_retries | set(handled))

    def partitions(self) -> dict[str, str]:
        """The partitions that registered code names, each with such a job."""
        return {name: spec.name for spec in self._jobs.values() if (name := spec.options.get("partition"))}

    def without_handlers(self) -> Registry:
        """The same jobs; for a partition, whose queues may have the names of others."""
        registry = copy.copy(self)
        registry._handlers = {}
        return registry


def _unknown(message: Message) -> str:
    if message.job_class == enclosure.CLASS:
        return (
            "a payload that is kept as text is not run; if it is a job, `pyworkers dead retry --jid "
            f"{message.jid}` puts the job itself into its queue"
        )
    if not message.job_class:
        return f"the job names no class, and queue {message.queue!r} has no handler"
    return (
        f"no job is registered as {message.job_class!r}: decorate one with @job({message.job_class!r}) "
        "in a module that `require` names"
    )


def _full_name(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"


def is_same_code(first: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether both functions begin at the same line of a file. A module that is imported twice (as __main__ and by its
    name, or reloaded) registers its own jobs again."""
    # Unwrapped: all atomic jobs are wrapped by one function.
    code, other_code = (getattr(inspect.unwrap(function), "__code__", None) for function in (first, other))
    if code is None or other_code is None:
        return first is other
    return (code.co_filename, code.co_firstlineno) == (other_code.co_filename, other_code.co_firstlineno)
