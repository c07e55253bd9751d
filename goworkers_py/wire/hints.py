"""The hints of functions and classes, as types."""

from __future__ import annotations

import functools
import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, get_type_hints

log = logging.getLogger(__name__)


def own_function(function: Callable[..., Any]) -> Any:
    """The function that the user wrote: without decorators that use functools.wraps, and without functools.partial. For
    a class its constructor, for another callable object the method that a call runs."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return own_function(function.func)
    if isinstance(function, type):
        return function.__init__  # type: ignore[misc]
    if inspect.isroutine(function):
        return function
    return type(function).__call__


_CLASS_VARIABLE = re.compile(r"(\w+\.)?ClassVar\b")  # no field


def hints_of(holder: Any) -> dict[str, Any]:
    """The hints of a function's parameters, or of a class's fields. A hint that cannot be resolved is left out, with a
    warning: its values pass as plain JSON."""
    try:
        return get_type_hints(holder, include_extras=True)
    except Exception:  # a hint is any expression
        return dict(_one_by_one(holder))


def _one_by_one(holder: Any) -> Iterator[tuple[str, Any]]:
    for names, hints in _annotations(holder):
        for name, hint in hints.items():
            if (name == "return" and not isinstance(holder, type)) or _CLASS_VARIABLE.match(str(hint)):
                continue
            try:
                alone = get_type_hints(SimpleNamespace(__annotations__={name: hint}), names, include_extras=True)
            except Exception as error:
                log.warning(
                    "the hint %s of %r in %s cannot be resolved (%s), so its values pass as plain JSON and are not "
                    "converted; import its type at run time, not only under TYPE_CHECKING",
                    hint, name, getattr(holder, "__qualname__", holder), error
                )  # fmt: skip
            else:
                yield name, alone[name]


def _annotations(holder: Any) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Each mapping of hints, with the names that its hints may use."""
    if not isinstance(holder, type):
        yield getattr(holder, "__globals__", {}), getattr(holder, "__annotations__", {})
        return
    for kind in reversed(holder.__mro__):
        module = sys.modules.get(kind.__module__)
        yield vars(module) if module else {}, inspect.get_annotations(kind)
