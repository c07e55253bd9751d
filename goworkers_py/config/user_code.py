"""Imports the user's code by the names in the configuration."""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

from goworkers_py.core.errors import ConfigError


def import_from_here() -> None:
    """Adds the working directory to the path: an installed command does not have it, and most users' jobs are there."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)


def import_module(module: str, place: str) -> Any:
    if "/" in module or module.startswith("."):
        raise ConfigError(f"{place}: {module!r} is a path; {_module_at(Path(module))}")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            hint = f"; {_module_at(Path(module))}" if module.endswith(".py") else ""
            raise ConfigError(f"{place}: there is no module {module!r} in {Path.cwd()} or on sys.path{hint}") from None
        raise _broken(module, place, error) from error
    except (Exception, SystemExit) as error:  # a script without a guard for __main__ calls sys.exit
        raise _broken(module, place, error) from error


def _module_at(path: Path) -> str:
    """Says which module name to type for a file."""
    path, here = Path(os.path.abspath(path)), Path.cwd()  # noqa: PTH100  # without following links
    folder = here if path.is_relative_to(here) and path != here else path.parent
    names = path.relative_to(folder).with_suffix("").parts
    where = "" if folder == here else f", in the directory {folder}"
    if all(name.isidentifier() for name in names):
        return f"type its name as a module: {'.'.join(names)}{where}"
    names = tuple(map(_as_identifier, names))
    return f"Python cannot import by that name: rename it to {'/'.join(names)}.py and type {'.'.join(names)}{where}"


def _as_identifier(name: str) -> str:
    spelled = _NOT_IN_A_NAME.sub("_", name)
    return spelled if spelled.isidentifier() else f"_{spelled}"


_NOT_IN_A_NAME = re.compile(r"\W")


def _broken(module: str, place: str, error: BaseException) -> ConfigError:
    """The error, with the traceback lines of the user's own code."""
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
