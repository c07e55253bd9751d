"""The decorator `dataclass` and the base `NamedTuple` of this package: those of Python, made in less time.

Python's `dataclass` compiles up to eight functions for each class, which was a fifth of the time from the start of a
worker to its first job. Here all classes share these functions, except `__init__`, which is compiled when the first
object is made. `fields`, `replace`, `asdict`, patterns and slots work. Not known: `order`, `InitVar`, other state than
fields in copies, and `super()` in a named tuple. `typing.NamedTuple` compiles the type of each field, which nobody asks
for. A module that uses `NamedTuple` begins with `from __future__ import annotations`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import inspect
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple
else:

    def dataclass(cls=None, *, frozen=False, slots=False, eq=True, repr=True, kw_only=False):  # noqa: A002
        def decorated(cls):
            return _decorated(cls, frozen, slots, eq, repr, kw_only)

        return decorated if cls is None else decorated(cls)

    class _NamedTupleMaker(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            if "__annotations__" not in body:
                raise TypeError(f"{name} has no fields, or its module no `from __future__ import annotations`")
            fields = list(body["__annotations__"])
            defaults = [body.pop(field) for field in fields if field in body]
            made = collections.namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024
            for key, value in body.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_NamedTupleMaker):
        """Only the base of classes."""


def _decorated(cls: type[Any], frozen: bool, slots: bool, eq: bool, with_repr: bool, kw_only: bool) -> type[Any]:
    shared: dict[str, Any] = {}
    if with_repr:
        shared["__repr__"] = _repr
    if eq:
        shared |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        shared |= {"__setattr__": _refuse, "__delattr__": _refuse, "__getstate__": _state, "__setstate__": _set_state}
    for name, function in shared.items():
        # Python gives a class with an `__eq__` of its own the `__hash__` None.
        if name not in vars(cls) or (name == "__hash__" and cls.__hash__ is None):
            setattr(cls, name, function)
    if cls.__doc__ is None:
        cls.__doc__ = f"{cls.__name__}()"  # Python's would ask `inspect` for the signature
    made: type[Any] = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    made.__init__ = _init_at_first_use(made)
    made.__signature__ = _Signature()
    # With the class, so that there are two at least: then the values are compared as those of a tuple are.
    compared = [field.name for field in dataclasses.fields(made) if field.compare]
    made._compared = attrgetter("__class__", *(compared or ["__class__"]))
    return made


class _Signature:
    """For editors and `help`: the signature of the class, whose `__init__` may not be compiled yet."""

    def __get__(self, made: object, cls: type[Any]) -> inspect.Signature:
        import inspect

        of = next(base for base in cls.__mro__ if "__init__" in vars(base))
        if made is not None or "_compared" not in vars(of):
            raise AttributeError("__signature__")  # of an object, or of a subclass with an `__init__` of its own
        signature = inspect.signature(_compiled_init(cls))
        return signature.replace(parameters=[*signature.parameters.values()][1:])


def _init_at_first_use(cls: type[Any]) -> Callable[..., None]:
    """An `__init__` that puts the compiled one in its place. Two threads may both do it."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        compiled = _compiled_init(cls)
        cls.__init__ = compiled
        compiled(self, *args, **kwargs)

    return init


def _compiled_init(cls: type[Any]) -> Callable[..., None]:
    assign = "set_field(self, {!r}, {})" if cls.__setattr__ is _refuse else "self.{} = {}"
    known: dict[str, Any] = {"set_field": object.__setattr__, "MISSING": dataclasses.MISSING}
    ordinary, keywords, lines = ["self"], ["*"], []
    for field in dataclasses.fields(cls):
        name, default, make = field.name, field.default, field.default_factory
        known |= {f"default_{name}": default, f"make_{name}": make}
        parameter = value = name
        if default is not dataclasses.MISSING:
            parameter = f"{name}=default_{name}"
        elif make is not dataclasses.MISSING:
            parameter, value = f"{name}=MISSING", f"make_{name}() if {name} is MISSING else {name}"
        if field.init:
            (keywords if field.kw_only else ordinary).append(parameter)
        elif parameter == name:
            continue  # `__post_init__` assigns it
        else:
            value = f"default_{name}" if make is dataclasses.MISSING else f"make_{name}()"
        lines.append(assign.format(name, value))
    lines += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    parameters = ", ".join([*ordinary, *(keywords if len(keywords) > 1 else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]), known)
    compiled: Callable[..., None] = known["__init__"]
    compiled.__qualname__ = f"{cls.__qualname__}.__init__"  # for the text of a TypeError
    return compiled


def _eq(self: Any, other: Any) -> Any:
    return self._compared(self) == self._compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse(self: object, name: str, value: object = None) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _state(self: Any) -> list[Any]:
    """For copies and pickles, which would assign the fields."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
