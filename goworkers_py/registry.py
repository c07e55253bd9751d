"""Which Python code runs a job: by the class on the wire, or one handler for a whole queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from goworkers_py.errors import ConfigError, UnknownJob
from goworkers_py.failure import DEFAULT_OPTIONS, RetryOptions
from goworkers_py.message import Message

Handler = Callable[[Message], Any]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A callable with its name on the wire and what its code says of its failures."""

    name: str
    function: Callable[..., Any]
    queue: str = "default"
    options: RetryOptions = DEFAULT_OPTIONS
    tags: tuple[str, ...] = ()
    timeout: float | None = None  # seconds
    interrupt: bool = True  # False: at its limit nothing is thrown into the job
    takes_message: bool = False  # and not the args


class Registry:
    """Filled while modules are imported, read by the workers: no lock, nothing is taken out again."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobSpec] = {}
        self._handlers: dict[str, JobSpec] = {}
        self.any_timeouts = False

    def add(self, spec: JobSpec) -> None:
        known = self._jobs.get(spec.name)
        if known is not None and not _same_place(known.function, spec.function):
            raise ConfigError(
                f"two jobs are called {spec.name!r}: {_place(known.function)} and {_place(spec.function)}; "
                "give one of them another name: @job('Name')"
            )
        self._jobs[spec.name] = spec
        self.any_timeouts = self.any_timeouts or spec.timeout is not None

    def handle(self, queue: str, handler: Handler, options: RetryOptions = DEFAULT_OPTIONS) -> None:
        self._handlers[queue] = JobSpec(queue, handler, queue, options, takes_message=True)

    def job(self, name: str) -> JobSpec | None:
        return self._jobs.get(name)

    def find(self, message: Message) -> JobSpec:
        spec = self._spec(message)
        if spec is None:
            raise UnknownJob(_unknown(message))
        return spec

    def options_for(self, message: Message) -> RetryOptions:
        spec = self._spec(message)
        return spec.options if spec else DEFAULT_OPTIONS

    def _spec(self, message: Message) -> JobSpec | None:
        return self._handlers.get(message.queue) or self._jobs.get(message.job_class)

    def timeout_for(self, message: Message) -> float | None:
        spec = self._spec(message)
        return spec.timeout if spec else None

    def may_be_interrupted(self, message: Message) -> bool:
        spec = self._spec(message)
        return spec is None or spec.interrupt

    @property
    def any_handlers(self) -> bool:
        return bool(self._handlers)

    def names(self) -> list[str]:
        return sorted(self._jobs)

    def names_in(self, queue: str) -> list[str]:
        """The classes whose code names this queue, for all runs or for retries."""
        return sorted(name for name, spec in self._jobs.items() if queue in (spec.queue, spec.options.retry_queue))

    def queues(self) -> list[str]:
        """Every queue that registered code names."""
        return sorted({spec.queue for spec in self._jobs.values()} | set(self._handlers))


def _unknown(message: Message) -> str:
    if not message.job_class:
        return f"the job names no class, and queue {message.queue!r} has no handler"
    return (
        f"no job is registered as {message.job_class!r}: decorate one with @job({message.job_class!r}) "
        "in a module that `require` names"
    )


def _place(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"


def _same_place(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """A module that is imported twice (as __main__ and by its name, or reloaded) registers its own jobs again."""
    code, other_code = getattr(one, "__code__", None), getattr(other, "__code__", None)
    if code is None or other_code is None:
        return one is other
    return (code.co_filename, code.co_firstlineno) == (other_code.co_filename, other_code.co_firstlineno)
