"""The arguments of a job and the parameters of its function: whether they fit, and which are converted.

A producer writes JSON. The hints of the parameters say what the function gets: see `wire.conversion`. Nothing of a
function is looked at before its first use, because its hints may name classes that are defined after it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire.hints import hints_of, own_function

if TYPE_CHECKING:
    from goworkers_py.policy.converters import Converters

Both = tuple[Sequence[Any], Mapping[str, Any]]


class Arguments:
    """How the function of one job takes its arguments. Shared by all threads: two may look at the function at the same
    time, and find the same."""

    def __init__(self, job_class: str, function: Callable[..., Any]) -> None:
        self._job_class = job_class
        self._function = function
        # Known after the first look at the function:
        self.plain = False  # whether all arguments pass as they are
        self._counts = range(0)  # how many positional arguments alone fit
        # Not by `cached_property`, whose lock another thread may hold in the moment in which a job forks.
        self._seen: tuple[inspect.Signature | None, Converters | None] | None = None

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises ArgumentError at a push whose arguments do not fit the function's signature."""
        if type(args) in (tuple, list) and not kwargs and len(args) in self._counts:
            return  # the usual case
        if why := self._unbound(args, kwargs):
            raise ArgumentError(f"{self._job_class} cannot be called with these arguments: {why}")

    def dump(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
        """The JSON of the arguments of a push. A row that is no list stays as it is: the client refuses it."""
        if not isinstance(args, list | tuple):
            return args, kwargs
        _, converters = self._look()
        return (args, kwargs) if converters is None else converters.dump(args, kwargs)

    def load(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Both:
        """The values of the arguments in a payload."""
        _, converters = self._look()
        return (args, kwargs) if converters is None else converters.load(args, kwargs)

    def misfit(self, args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError) -> str:
        """Why a call with these arguments raised the error before the function began; empty if it had begun."""
        code = getattr(own_function(self._function), "__code__", None)
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is code:
                return ""
            trace = trace.tb_next
        return self._unbound(args, kwargs)

    def _unbound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Why the function's signature does not take these arguments; empty if it does."""
        signature, _ = self._look()
        if signature is not None:
            try:
                if kwargs or len(args) not in self._counts:
                    signature.bind(*args, **kwargs)
            except TypeError as error:
                return str(error)
        return ""

    def _look(self) -> tuple[inspect.Signature | None, Converters | None]:
        if self._seen is None:
            signature, converters = _signature(self._function), None
            if hints := hints_of(own_function(self._function)):
                from goworkers_py.policy.converters import converters_of

                converters = converters_of(self._job_class, signature, hints)
            self._seen = signature, converters
            self.plain = converters is None
            self._counts = _counts(signature)
        return self._seen


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a builtin without a signature


def _counts(signature: inspect.Signature | None) -> range:
    """How many positional arguments without keyword arguments fit: to count them is quicker than to bind them."""
    least = most = 0
    for parameter in signature.parameters.values() if signature else ():
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = sys.maxsize - 1
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            least += parameter.default is parameter.empty
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            return range(0)
    return range(least, most + 1)
