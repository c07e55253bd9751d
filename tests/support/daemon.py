"""The command `pyworkers` as a real process, with real signals and the test's own jobs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from servers import check_allowed
from waiting import await_stopped, eventually

SLOW = """
    import time
    import goworkers_py as workers

    @workers.job("Slow", queue="q")
    def slow(seconds):
        time.sleep(seconds)
"""
START_S = 20.0
STOP_S = 20.0

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z", re.MULTILINE)


def command(*arguments: str) -> list[str]:
    check_allowed()
    return [sys.executable, "-m", "goworkers_py.cli", *arguments]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment, so that coverage goes on, without a developer's variables for pyworkers and Python:
    unbuffered output, or no compiled files, would hide faults."""
    dropped = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("PYWORKERS_") and name not in dropped
    }
    return {**kept, **changes}


def pyworkers(*arguments: str, cwd: Path | None = None, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs a command that ends by itself. `changes` are added to its environment."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


class Daemon:
    """`pyworkers run`, with a module of jobs written into `directory`, which may be empty. Killed at the end of its
    `with`."""

    def __init__(
        self,
        directory: Path,
        redis_url: str,
        jobs: str,
        *flags: str,
        prefix: Sequence[str] = (),
        changes: Mapping[str, str] | None = None,
    ) -> None:
        module, text = directory / "jobs.py", textwrap.dedent(jobs)
        if not module.exists() or module.read_text() != text:  # another daemon may be reading it
            module.write_text(text)
        self._log = directory / f"daemon-{len(list(directory.glob('daemon-*.log')))}.log"
        self._log.touch(0o600)  # pages write their token into no file that everybody may read
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*prefix, *command("run", "--allow-no-jobs", "--redis", redis_url, "--require", "jobs", *flags)],
                cwd=directory,
                env=environment(**(changes or {})),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self._log.read_text("utf-8", "replace")

    @property
    def lines(self) -> int:
        """The number of log lines, without the lines of tracebacks."""
        return len(_TIME.findall(self.output))

    def says(self, text: str, within_s: float = START_S) -> str:
        """Waits until `text` is in the output and returns its line. Fails at once if the process ends before."""
        eventually(lambda: text in self.output or self.process.poll() is not None, within_s)
        found = [line for line in self.output.splitlines() if text in line]
        assert found, f"{text!r} is not in:\n{self.output}"
        return found[0]

    def ready(self) -> Daemon:
        self.says("; stop it with TERM or Ctrl-C")
        return self

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            await_stopped(self.process.pid)

    def wait(self, within_s: float = STOP_S) -> int:
        """The exit code."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the daemon did not end in {within_s} s:\n{self.output}") from None

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Daemon:  # noqa: PYI034  # typing.Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


@pytest.fixture
def slow_daemon(tmp_path: Path, redis_url: str) -> Iterator[Daemon]:
    """Has a job that sleeps, and two threads for it. conftest.py imports this fixture for every test."""
    folder = tmp_path / "daemon"
    folder.mkdir()
    with Daemon(folder, redis_url, SLOW, "-q", "q=2") as daemon:
        yield daemon.ready()
