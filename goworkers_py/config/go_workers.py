"""The options of go-workers, in ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from goworkers_py.config.options import Config, options_by_any_name
from goworkers_py.config.parsers import did_you_mean
from goworkers_py.core.errors import ConfigError


def of_go_workers(settings: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Translates the options of go-workers. `options`, by the names of pyworkers, override them, under either name."""
    known = {"server", "database", "password", "pool", "process", "namespace", "poll_interval"}
    unknown = sorted(set(settings) - known)
    if unknown:
        hint = did_you_mean(unknown[0], known) or f"; known are {', '.join(sorted(known))}"
        raise ConfigError(f"configure: {unknown[0]!r} is not an option{hint}")
    password = f":{quote(str(settings['password']), safe='')}@" if settings.get("password") else ""
    address = f"redis://{password}{settings.get('server', 'localhost:6379')}/{settings.get('database', '0')}"
    # `pool` is ignored: connections are opened when they are needed.
    kept = {name: settings[name] for name in ("process", "namespace", "poll_interval") if name in settings}
    rows = options_by_any_name(Config)
    overridden = {rows[name].name for name in options if name in rows}
    translated = {"broker": address, **kept}
    return {**{name: value for name, value in translated.items() if name not in overridden}, **options}
