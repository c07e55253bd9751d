"""Runs Python programs in forks of one process that has imported goworkers_py: most of them take less time than the
import. Each is the main module of its fork, and ends as a program does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType


class ForkedPython:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, program: str, directory: Path, environment: Mapping[str, str]) -> tuple[int, str]:
        """The exit code of the program, and what it has printed."""
        printed = directory / "printed"
        asked = {"program": program, "directory": str(directory), "environment": environment, "printed": str(printed)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline()), printed.read_text("utf-8")

    def close(self) -> None:
        self._process.communicate()


def _main() -> None:
    import goworkers_py.brokers.redis.broker
    import goworkers_py.testing

    del goworkers_py.testing  # the attribute of the package: programs get it as if they were the first to ask for it
    sys.path[0] = ""  # as for `python -c`
    while line := sys.stdin.readline():
        asked = json.loads(line)
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        else:
            _become(**asked)
            break


def _become(program: str, directory: str, environment: dict[str, str], printed: str) -> None:
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    written = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(written, 1)
    os.dup2(written, 2)
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), vars(main))


if __name__ == "__main__":
    _main()
