"""The options of jobs whose own code does not give them: for a module, or for the whole application."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

from goworkers_py.config.job_options import CodeOptions, overridden

_ALL = ""


class Defaults:
    """Filled and read while modules are imported, so it has no lock."""

    def __init__(self) -> None:
        self._of: dict[str, CodeOptions] = {}  # by the module's name

    def add(self, module: str | None, options: CodeOptions) -> None:
        """Options that a module has already are overridden. Without a module they are those of the application."""
        name = module or _ALL
        self._of[name] = _over(options, self._of.get(name, CodeOptions()))

    def below(self, options: CodeOptions, function: Callable[..., Any]) -> CodeOptions:
        """The options of a job: its own, then those of its module, of the packages around it, of the application."""
        module = getattr(function, "__module__", None) or ""
        said = self._of.get(_ALL, CodeOptions())
        for name in accumulate(module.split("."), "{}.{}".format):
            said = _over(self._of.get(name, CodeOptions()), said)
        return _over(options, said)


def _over(options: CodeOptions, below: CodeOptions) -> CodeOptions:
    both: CodeOptions = overridden(options, below)  # type: ignore[assignment]
    return both
