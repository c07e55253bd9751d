"""Finding the user's code by the names that the configuration gives."""

from __future__ import annotations

import importlib
import sys
import traceback
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
            hint = ""
            if "/" in module or module.endswith(".py"):
                hint = f"; a module is named as {module.removesuffix('.py').strip('./').replace('/', '.')}"
            raise ConfigError(f"{place}: there is no module {module!r} in {Path.cwd()} or on sys.path{hint}") from None
        raise _broken(module, place, error) from error
    except Exception as error:
        raise _broken(module, place, error) from error


def _broken(module: str, place: str, error: Exception) -> ConfigError:
    """With the lines of the user's own code that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((n for n, frame in enumerate(frames) if "importlib" not in frame.filename and n > 0), len(frames))
    lines = "".join(traceback.format_list(frames[first:])).rstrip()
    what = "".join(traceback.format_exception_only(error)).rstrip()
    return ConfigError(f"{place}: module {module!r} cannot be imported: {what}" + (f"\n{lines}" if lines else ""))


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
