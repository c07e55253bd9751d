"""What the Python peers share: each has an environment of its own, with pinned releases."""

from __future__ import annotations

from pathlib import Path

from bench import environments
from bench.torture.systems.system import APPS, System


class PythonPeer(System):
    language = "Python"
    requirement: str
    _programs = Path()

    def find(self) -> None:
        self.version = self.requirement.partition("==")[2]

    def install(self) -> None:
        # The fast parser for everyone.
        self._programs = environments.python_environment(f"torture-{self.name}", (self.requirement, "hiredis"))

    def program(self, name: str) -> str:
        return str(self._programs / name)

    def client(self) -> list[str]:
        return [self.program("python"), str(APPS / f"{self.name}_app.py")]
