"""The command `pyworkers` with short times: a real process whose leases last seconds, not a minute.

The program stands before the command: `python hasty.py '{...}' python -m goworkers_py.cli run ...`. It sets constants
of modules and classes, by their names, and then runs the command.

    Daemon(directory, url, jobs, "-q", "q", prefix=hasty(machine="b"))
"""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Mapping
from typing import Any

# A tenth of the real values, or less. Each is still longer than the step that it limits.
SHORT = {
    "timing.lease_s": 4,
    "timing.lease_fresh_s": 3,
    "timing.beat_every_s": 0.5,
    "timing.recover_every_s": 0.3,
    "timing.steady_for_s": 1.0,
}


def hasty(constants: Mapping[str, Any] = SHORT, machine: str = "") -> list[str]:
    """The words before the command. A process cannot see whether a process with another `machine` still runs."""
    return [sys.executable, __file__, json.dumps({"constants": dict(constants), "machine": machine})]


def apply(changes: Mapping[str, Any]) -> None:
    """Changes this process, as the first words of the command tell."""
    import goworkers_py
    from goworkers_py.core import proc
    from goworkers_py.core.timing import Timing

    constants = dict(changes["constants"])
    timing = {name.removeprefix("timing."): constants.pop(name) for name in [*constants] if name.startswith("timing.")}
    goworkers_py.app.timing = Timing(**timing)
    for name, value in constants.items():
        where, _, constant = name.rpartition(".")
        owner = pkgutil.resolve_name(f"goworkers_py.{where}")  # a module, or a class in it
        assert hasattr(owner, constant), name
        setattr(owner, constant, value)
    if changes["machine"]:
        proc._machine = lambda: changes["machine"]  # type: ignore[assignment]


if __name__ == "__main__":
    apply(json.loads(sys.argv[1]))
    sys.argv[:] = sys.argv[4:]  # without: this file, the constants, python, -m
    del sys.path[0]  # this file's folder, which the real command has not in its path

    from goworkers_py.cli import main

    main()
