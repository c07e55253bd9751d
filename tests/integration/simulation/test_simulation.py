"""Two hundred hours of simulated fleets; the same run from the same seed; and defects that it finds again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 15):
    pytest.skip("greenlet has no wheel for this Python", allow_module_level=True)

from goworkers_py.core import machine
from simulation.fleet import Fleet
from simulation.kernel import Kernel, Process
from simulation.machine import simulated
from simulation.reverts import REVERTS, Revert
from simulation.run import Script, simulate
from simulation.server import MemoryServer
from simulation.shrink import kind_of

pytestmark = pytest.mark.timeout(900)  # beside the other tests, with a share of a processor
TESTS = Path(__file__).parents[2]
# Which seeds find a defect changes with every change of the code. These are found within the first runs of any.
FOUND_SOON = {"surrogate in the settler", "uncounted strike"}


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which has not imported the package."""
    paths = os.pathsep.join(str(TESTS / folder) for folder in ("integration", "support"))
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": paths, "PYWORKERS_TEST_EXEC": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def simulation(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "simulation", *arguments, **environment)


def test_two_hundred_hours_of_simulated_fleets_bring_no_complaint() -> None:
    run = simulation("--hours", "200")
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 runs with complaints" in run.stdout


@pytest.mark.parametrize(
    "revert",
    [
        pytest.param(revert, marks=[] if revert.name in FOUND_SOON else pytest.mark.slow, id=revert.name)
        for revert in REVERTS
    ],
)
def test_without_a_mend_the_simulation_complains(revert: Revert) -> None:
    run = simulation("--hours", "20000", "--processes", "1", "--without", revert.name)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 runs with complaints" in run.stdout


def test_a_seed_makes_the_same_run_whatever_the_order_of_sets(tmp_path: Path) -> None:
    traces = [tmp_path / "first", tmp_path / "second"]
    runs = [
        simulation("--seed", "3", "--trace", str(trace), PYTHONHASHSEED=str(number))
        for number, trace in enumerate(traces)
    ]
    assert [run.returncode for run in runs] == [0, 0]
    assert traces[0].read_text() == traces[1].read_text() != ""
    assert runs[0].stdout == runs[1].stdout


TWICE = """
from simulation.run import Script, simulate
print(*(simulate(Script.of(148, "memory")) for _ in range(2)), sep="\\n")
"""


def test_a_seed_makes_the_same_run_after_other_runs_in_the_same_process() -> None:
    """So `--seed` replays a failure that was found among others."""
    run = python("-c", TWICE)
    first, second = run.stdout.splitlines()
    assert first == second


def test_a_run_that_fails_is_made_shorter_and_replays_from_its_script() -> None:
    without = ("--without", "uncounted strike", "--processes", "1")
    whole = simulation("--hours", "2000", *without)
    [line] = [line for line in whole.stdout.splitlines() if line.startswith("seed ")]
    seed, before = line.split()[1].rstrip(":"), int(line.split(" steps")[0].split()[-1])
    shrunk = simulation("--seed", seed, "--shrink", *without).stdout.splitlines()
    script = next(line for line in reversed(shrunk) if "{" in line)
    assert int(script.split(" steps")[0]) < before
    again = simulation("--script", script[script.index("{") :], *without)
    assert "maxlen must be non-negative" in again.stdout


@pytest.mark.parametrize(
    ("complaint", "kind"),
    [
        ("limit wide red: 4 at once: job 3 (wide, key red, 00): run 1", "limit wide"),
        ("batch b12 has two callbacks: run 1, run 2", "batch has two"),
        ("daemon 3 does not stop", "daemon does not"),
    ],
)
def test_what_is_wrong_is_told_apart_from_whom_it_concerns(complaint: str, kind: str) -> None:
    assert kind_of(complaint) == kind


def test_a_trace_of_many_runs_is_refused() -> None:
    refused = simulation("--hours", "1", "--trace", "steps")
    assert refused.returncode == 2
    assert "add --seed or --script" in refused.stderr


# --- the fleet


def test_a_daemon_that_stops_has_its_successor_beside_it() -> None:
    kernel = Kernel(1)
    with simulated(kernel):
        fleet = Fleet(kernel, MemoryServer(kernel), 2, 1)
        old, other = fleet.daemons
        old.terminate()
        fleet.start_one()
        fleet.start_one()
        assert fleet.daemons[:2] == [old, other]
        assert [daemon.stops for daemon in fleet.daemons] == [True, False, False]


# --- the kernel


def test_threads_of_a_killed_process_unwind_and_have_no_effect() -> None:
    kernel, effects = Kernel(1), list[str]()
    with simulated(kernel):
        process, other = Process(kernel, "killed"), Process(kernel, "other")

        def work() -> None:
            try:
                machine.sleep(10)
                effects.append("went on")
            finally:
                machine.Event().wait(1)
                effects.append("waited")

        kernel.spawn(process, "worker", work)
        kernel.spawn(other, "worker", lambda: machine.sleep(20))
        kernel.at(5.0, process.kill)
        kernel.run(lambda: False, 30)
    assert effects == []
    assert not kernel.failures


def test_a_paused_process_goes_on_where_it_stood_and_its_machine_may_have_slept() -> None:
    kernel, seen = Kernel(1), list[tuple[float, float]]()
    with simulated(kernel):
        process = Process(kernel, "paused")

        def work() -> None:
            began = machine.monotonic(), machine.awake_and_asleep()
            machine.sleep(10)
            seen.append((machine.monotonic() - began[0], machine.awake_and_asleep() - began[1]))

        def wake() -> None:
            process.asleep_s = 60
            process.resume()

        kernel.spawn(process, "worker", work)
        kernel.at(5.0, process.pause)
        kernel.at(65.0, wake)
        kernel.run(lambda: False, 100)
    assert seen == [(pytest.approx(5, abs=0.1), pytest.approx(65, abs=0.1))]


def test_an_exception_is_thrown_into_a_thread_as_it_goes_on() -> None:
    kernel, raised = Kernel(1), list[float]()
    with simulated(kernel):
        process = Process(kernel, "p")

        def work() -> None:
            try:
                machine.sleep(10)
            except KeyError:
                raised.append(kernel.now)

        task = kernel.spawn(process, "worker", work)
        kernel.spawn(process, "watchdog", lambda: machine.throw(task.ident, KeyError))
        kernel.run(lambda: False, 30)
    assert raised == [pytest.approx(10, abs=0.1)]


def test_a_script_is_the_same_after_it_was_written_as_json() -> None:
    script = Script.of(7)
    assert Script.from_json(script.as_json()) == script


def test_a_run_without_jobs_and_faults_leaves_nothing() -> None:
    assert simulate(Script(1, work_s=60, jobs_per_minute=1e-9, faults_per_minute=0.0)).complaints == []
