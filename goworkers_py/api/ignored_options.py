"""The warning about a call of `configure` in code that a command has started: the command's configuration holds."""

from __future__ import annotations

import logging

from goworkers_py.config.options import Config, options_of

log = logging.getLogger(__name__)


def warn_of_ignored(given: Config, holds: Config) -> None:
    """Names the options of `given` that differ from their default and from `holds`, the command's configuration."""
    default = Config()
    names = [
        given.spelling(name)
        for name in options_of(Config)
        if getattr(given, name) not in (getattr(default, name), getattr(holds, name))
    ]
    if names:
        log.warning(
            "configure() ignored: this code was started by `pyworkers`; set %s in the configuration file, the "
            "environment or flags", ", ".join(names)
        )  # fmt: skip
