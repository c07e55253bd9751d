"""Each revert of the simulator fits today's source, and takes its mend out of what a process imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.reverts import REVERTS, Revert, edited, take_out

pytestmark = pytest.mark.timeout(600)  # beside the other tests, with a share of a processor
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from simulation.reverts import take_out
take_out("late settlement")
from goworkers_py.brokers.memory.endings import Endings
from goworkers_py.brokers.redis.queues import settlement
source = settlement._script('settle.lua', None).source
print("refuse_late" in Endings.settle.__code__.co_names, "a later batch" in source)
"""


@pytest.mark.parametrize("revert", REVERTS, ids=lambda revert: revert.name)
def test_each_text_that_a_revert_replaces_is_in_its_file_once_and_the_rest_compiles(revert: Revert) -> None:
    for path, text in edited(revert.all_edits).items():
        assert path.suffix == ".lua" or compile(text, path, "exec")


def test_a_process_imports_the_package_without_the_mend_and_no_compiled_file_keeps_that() -> None:
    folder = Path(__file__).parents[1]

    def told(program: str) -> str:
        command = [sys.executable, "-c", program, str(folder)]
        fresh = {**os.environ, "PYWORKERS_TEST_EXEC": "1"}  # no fork of a process that has imported the package
        return subprocess.run(command, env=fresh, check=True, capture_output=True, text=True).stdout

    assert told(PROGRAM) == "False False\n"
    assert told(PROGRAM.replace('take_out("late settlement")', "")) == "True True\n"


def test_a_package_that_is_imported_already_is_not_reverted() -> None:
    with pytest.raises(RuntimeError, match="imported already"):
        take_out("timers early")
