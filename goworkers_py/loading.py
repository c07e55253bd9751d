"""Finding the user's code by the names that the configuration gives."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from goworkers_py.errors import ConfigError


def import_from_here() -> None:
    """An installed command does not have the working directory on its path; the user's jobs are mostly there."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def import_module(module: str, place: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise ConfigError(f"{place}: there is no module {module!r} in {Path.cwd()} or on sys.path") from None
        raise  # a module that the user's own module needs: its traceback tells more


def resolve(path: str, place: str) -> Any:
    module, _, name = path.partition(":")
    if not name:
        raise ConfigError(f"{place}: {path!r} must be module:name")
    found = import_module(module, place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{place}: module {module!r} has no {name!r}")
        found = getattr(found, part)
    return found
