"""`pyworkers` called inside the test's process. conftest.py imports these fixtures for every test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import goworkers_py
from goworkers_py.api.app import App
from goworkers_py.cli import main as cli

JOBS = """
    import goworkers_py as workers

    @workers.job("Quick", queue="q", retry=3)
    def quick(*args): ...

    class Link:
        def call(self, queue, message, call_next):
            return call_next()
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with a module of jobs."""
    (tmp_path / "jobs.py").write_text(JOBS.replace("\n    ", "\n"))
    return tmp_path


Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def called_app() -> Iterator[App]:
    """The App of the commands that `call` runs."""
    app = App()
    yield app
    app.use(app.config, by_command=True)  # closes its connections


@pytest.fixture
def call(
    here: Path, called_app: App, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Call]:
    """Runs `pyworkers` in this process, in the directory `here`, with its own App. Much quicker than a new process."""

    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name, value in changes.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as exit_:
                cli.main(list(arguments), prog_name="pyworkers", obj=called_app)
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, int(exit_.value.code or 0), out, err)

    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(goworkers_py, "job", called_app.job)  # modules of jobs use `goworkers_py.job`
    yield run
    sys.modules.pop("jobs", None)


@pytest.fixture
def on_this_server(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that name no server ask the empty database."""
    monkeypatch.setenv("PYWORKERS_REDIS", redis_url)


def one_line(text: str) -> str:
    (line,) = text.splitlines()
    assert line.startswith("pyworkers: ")
    return line.removeprefix("pyworkers: ")
