"""For tests that give one module another machine: `monkeypatch.setattr(module, "machine", other_machine(time=...))`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from goworkers_py.core import machine


def other_machine(**replaced: Any) -> SimpleNamespace:
    """`core.machine`, with these of its names replaced."""
    return SimpleNamespace(**{**vars(machine), **replaced})
