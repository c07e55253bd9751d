"""A push as a program asks for it. `core.effect.Push` is what is sent for each of its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.policy.arguments import Both
    from goworkers_py.policy.registry import JobSpec

NO_MEMBERS: Mapping[str, Any] = MappingProxyType({})


class PushRequest(NamedTuple):
    """One job of the class for each row of arguments. All jobs get the same `kwargs`."""

    queue: str
    job_class: str
    rows: Sequence[Sequence[Any]]  # as JSON
    options: EnqueueOptions = NO_OPTIONS
    kwargs: Mapping[str, Any] | None = None
    needs: frozenset[str] = frozenset()  # the features that the worker must know, beside those of the options
    code: JobSpec | None = None  # of the class, where the job itself pushes
    given: Sequence[Both] | None = None  # the arguments of each row before they were written as JSON; None: the same
    blocks: frozenset[str] = frozenset()  # the features whose `with` blocks give ties to the jobs
    # Something else pushes the job:
    by_others: bool = False
    members: Mapping[str, Any] = NO_MEMBERS  # of the payload's field `pyworkers`, beside the needs
    is_later: bool = False  # at a time that nobody knows yet

    def arguments(self) -> Sequence[Both]:
        """The arguments of each row, as they were given."""
        return [(args, self.kwargs or {}) for args in self.rows] if self.given is None else self.given


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ArgumentError(message)
