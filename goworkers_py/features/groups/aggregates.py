"""The functions that aggregate groups, one for a class: see `Job.aggregate`."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.core.errors import UnknownJob
from goworkers_py.features.groups.job_options import GroupOptions
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire.message import Message

NAME = "groups"  # of the feature


def aggregator_of(spec: JobSpec) -> JobSpec | None:
    """The function that aggregates the groups of this class."""
    found: JobSpec | None = spec.of_features.get(NAME)
    return found


class Aggregates(Registry):
    """Finds the function that runs an aggregation job, where a Registry finds that of the class."""

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self._registry = registry

    def spec_of(self, message: Message) -> JobSpec | None:
        spec = self._registry.job(message.job_class)
        return None if spec is None else aggregator_of(spec)

    def find(self, message: Message) -> JobSpec:
        spec = self.spec_of(message)
        if spec is None:
            raise UnknownJob(
                f"no function aggregates the groups of {message.job_class!r}: decorate one with @NAME.aggregate below "
                "the job, in a module that `require` names"
            )
        return spec


def aggregated_in(registry: Registry) -> list[JobSpec]:
    """The jobs whose groups are aggregated here."""
    return [spec for name in registry.names() if (spec := registry.job(name)) and aggregator_of(spec)]


def lacking_in(registry: Registry) -> Iterator[str]:
    """A warning for each class whose own options gather groups, while no function aggregates them."""
    specs = [spec for name in registry.names() if (spec := registry.job(name)) and not aggregator_of(spec)]
    options = [*reversed(GroupOptions.__annotations__)]  # of those given, the last one is told
    found = [(spec, option) for spec in specs for option in options if spec.own.get(option) is not None]
    problems = {spec.name: f"{spec.name} has {option} and no @{_code(spec)}.aggregate" for spec, option in found}
    return (f"{problem}: its groups wait for ever" for problem in problems.values())


def _code(spec: JobSpec) -> str:
    return str(getattr(spec.function, "__name__", spec.name))
