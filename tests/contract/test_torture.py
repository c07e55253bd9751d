"""No job is lost when processes are killed between any two instructions.

PYWORKERS_TEST_TORTURE_S is for how many seconds processes are killed. The default finds large faults. Before a release
of a broker, run it for some minutes: a fault that is hit once in a thousand kills needs as many.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import torture
from harness import DEAD, RETRIES, SCHEDULED, Process, Processes, all_jobs, can
from waiting import eventually

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.admin import Admin, Place
from goworkers_py.core.job_state import JobState
from goworkers_py.core.proc import origin

TORTURE_S = float(os.environ.get("PYWORKERS_TEST_TORTURE_S", "2"))


@dataclass
class Ledger:
    published: set[str]
    done: set[str]

    @classmethod
    def read(cls, path: Path) -> Ledger:
        lines = [line.split() for line in path.read_text().splitlines()]
        return cls(*({name for kind, name in lines if kind == wanted} for wanted in "PD"))


def torture_broker(address: str, ledger: Path) -> None:
    seed = str(random.randrange(10**6))
    command = [sys.executable, torture.__file__, address, str(ledger), str(TORTURE_S), seed]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    print(f"seed {seed}: {done.stdout}")
    assert done.returncode == 0, done.stderr


def all_are_recovered(process: Process) -> bool:
    """A step that a process sent before it was killed may reach the server late, so the caller tries again."""
    process.recover(proof=None)
    return not [*process.broker.admin.in_progress()]


def jobs_in_places(admin: Admin) -> Counter[str]:
    places = [SCHEDULED, RETRIES, DEAD, *(Place(JobState.WAITING, queue.name) for queue in admin.queues())]
    return Counter(one.jid for one in all_jobs(admin, places))


def assert_none(names: set[str], trouble: str) -> None:
    assert not names, f"{len(names)} {trouble}, such as {min(names)}"


def assert_children_came_with_the_end_of_their_parents(known: set[str], found: set[str]) -> None:
    parents = {name: child for name in known if (child := torture.child_of(name))}
    assert_none({name for name, child in parents.items() if name in found and child in known}, "half-done parents")
    assert_none({name for name, child in parents.items() if name not in found and child not in known}, "lost children")


@pytest.mark.timeout(120 + 3 * TORTURE_S)
@pytest.mark.usefixtures("untraced", "store", "recoverable")
def test_no_job_is_lost_when_processes_are_killed_at_any_instruction(
    start: Processes, me: Process, admin: Admin, tmp_path_factory: pytest.TempPathFactory
) -> None:
    can(me.broker, Capability.SHARED)
    can(me.broker, Capability.LASTING)
    if not origin()["machine"]:
        pytest.skip("this system does not tell which processes have ended")
    path = tmp_path_factory.mktemp("torture") / "ledger"
    torture_broker(me.config.broker, path)
    last = start()
    assert eventually(lambda: all_are_recovered(last)), "jobs are in progress that no recovery finds"
    ledger, found = Ledger.read(path), jobs_in_places(admin)
    known = ledger.done | set(found)
    print(f"{len(ledger.published)} jobs, {len(ledger.done)} done, {sum(n > 1 for n in found.values())} in two places")
    assert_none(ledger.published - known, "jobs are lost")
    assert_children_came_with_the_end_of_their_parents(known, set(found))
    publishes = {name.rpartition("/")[0] for name in known if not name.startswith("child-of-")}
    whole = {name for publish in publishes for name in torture.names_of(publish)}
    assert_none(whole - known, "jobs are missing of publishes that were done in part")
