"""The options of one push."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from goworkers_py.config.job_options import (
    CodeOptions,
    PushOptions,
    WireOptions,
    checked,
    fields_of,
    options_of,
    overridden,
)
from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire import payload

if TYPE_CHECKING:
    from typing_extensions import Unpack


# Options of a push that make it unlike others with the same ones.
_OF_ONE_PUSH = frozenset({"at", "jid", "priority"})


class EnqueueOptions:
    """The options of one push: `EnqueueOptions(retry=3, tags=["a"])`. If an option is not given, the job's own code
    decides, or the default of the program that runs the job."""

    __slots__ = ("__weakref__", "counting", "fields", "needs", "of_one_push", "said")

    def __init__(self, **options: Unpack[PushOptions]) -> None:
        self.said: dict[str, Any] = checked(options, PushOptions)
        self.fields = fields_of(self.said)  # of the payload
        wanted = (name for name, value in self.said.items() if value is not False)
        found = (options_of(PushOptions)[name].needs for name in wanted)
        self.needs = frozenset(need for need in found if need)  # of the worker
        self.counting = [name for name in self.said if options_of(PushOptions)[name].write_at]  # from the push on
        self.of_one_push = bool(self.counting) or not _OF_ONE_PUSH.isdisjoint(self.said)
        if "extra" in self.said:
            self.fields = _extra_fields(self.said["extra"]) | self.fields

    def fields_at(self, pushed_at: float) -> dict[str, Any]:
        """The fields of the payload of a job that becomes due at that time."""
        fields = self.fields
        for name in self.counting:
            write_at = options_of(PushOptions)[name].write_at
            assert write_at is not None
            fields = {**fields, **write_at(self.said[name], pushed_at)}
        return fields

    def over(self, code: CodeOptions) -> EnqueueOptions:
        """Adds the options of the job's code that this push does not give, as in `EnqueueOptions(retry=3).over(code)`.
        Fields in the payload hold for other programs too."""
        extra = self.said.get("extra", {})
        shared = {name: value for name, value in code.items() if name in options_of(WireOptions) and name not in extra}
        return EnqueueOptions(**overridden(self.said, shared))

    def replaced(self, **options: Unpack[PushOptions]) -> EnqueueOptions:
        """The same options with some replaced: `EnqueueOptions(retry=3).replaced(at=4102444800)`."""
        return EnqueueOptions(**overridden(options, self.said))

    def __repr__(self) -> str:
        return f"EnqueueOptions({', '.join(f'{name}={value!r}' for name, value in self.said.items())})"


NO_OPTIONS = EnqueueOptions()

_SET_BY_PUSH = ("class", "args", "kwargs", "queue", "at", "created_at", "enqueued_at")
_RESERVED = "pyworkers"
# These are options since 0.2.0. Older programs give them in `extra`; the option itself overrides that.
_ONCE_EXTRA = ("retry_max", "log_level")


def _extra_fields(extra: dict[str, Any]) -> dict[str, Any]:
    for name in extra:
        if name in _SET_BY_PUSH:
            raise ArgumentError(f"extra: {name} is set by the push; leave it out")
        if name == _RESERVED:
            raise ArgumentError(f"extra: {name} is reserved for pyworkers since 0.2.0; use another name")
        if name in options_of(PushOptions) and name not in _ONCE_EXTRA:
            raise ArgumentError(f"extra: {name} is an option; give it as {name}=")
    checked({name: extra[name] for name in _ONCE_EXTRA if name in extra}, PushOptions)
    payload.check_plain(extra, "extra", payload.MAX_NESTING)
    return copy.deepcopy(extra)  # a change of the caller's objects is no change of these options
