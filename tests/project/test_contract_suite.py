"""The author of a broker can run the contract tests against it, as docs/internals/writing-a-broker.md says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
THEIRS = """
class TheirHarness:
    def __init__(self, folder):
        self.address = f"memory://theirs/{folder}"

    def expire_lease(self, identity):
        raise NotImplementedError

    def close(self):
        print("closed")
"""


@pytest.mark.server
def test_the_suite_runs_against_the_named_harness_only(tmp_path: Path) -> None:
    (tmp_path / "their_package.py").write_text(THEIRS)
    environment = {
        **os.environ, "PYTHONPATH": str(tmp_path), "PYWORKERS_TEST_HARNESS": "their_package:TheirHarness",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-v", "-s", "-p", "no:cacheprovider", "tests/contract/test_broker.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "harnesses: TheirHarness\n" in done.stdout
    assert "[TheirHarness]" in done.stdout
    assert "closed" in done.stdout
    assert "redis" not in done.stdout.partition("collected")[2]
