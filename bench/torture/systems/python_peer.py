"""What the Python peers share: each has an environment of its own, with pinned releases."""

from __future__ import annotations

from pathlib import Path

from bench import environments
from bench.torture.systems.system import APPS, System


class PythonPeer(System):
    language = "Python"
    requirements: tuple[str, ...]

    def install(self) -> None:
        # The fast parser for everyone.
        programs = environments.python_environment(f"torture-{self.name}", (*self.requirements, "hiredis"))
        self.version = environments.python_version(programs, self.name)
        self._programs = programs

    def program(self, name: str) -> str:
        return str(self._programs / name)

    def client(self) -> list[str]:
        return [self.program("python"), str(APPS / f"{self.name}_app.py")]

    _programs = Path()
