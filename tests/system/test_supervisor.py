"""A parent whose children die at their start. With real children: integration/test_supervisor.py."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from goworkers_py.system import supervisor
from goworkers_py.system.supervisor import MOST_EARLY_DEATHS, Supervisor
from goworkers_py.system.systemd import SystemdNotifier

KILLED = "import os; open('born', 'a').write('x'); os.kill(os.getpid(), 9)"
ENDED = "open('born', 'a').write('x'); raise SystemExit(3)"


@pytest.mark.parametrize(("program", "born", "code"), [(KILLED, MOST_EARLY_DEATHS, 1), (ENDED, 1, 3)])
def test_children_that_never_get_ready_end_the_parent(
    program: str,
    born: int,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.01)
    with caplog.at_level(logging.ERROR, "goworkers_py"):
        assert Supervisor(2, [sys.executable, "-S", "-c", program], SystemdNotifier({})).run() == code
    assert len(Path("born").read_text()) == born
    assert sum("died with" in line for line in caplog.messages) == born
    gave_up = f"no process gets ready, tries: {MOST_EARLY_DEATHS}; stopping"
    assert (gave_up in caplog.messages) == (born > 1)
