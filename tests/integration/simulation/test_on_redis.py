"""The simulated fleet on a real redis-server: the Lua of every step, under interleavings and troubles from a seed."""

from __future__ import annotations

import dataclasses
import shutil
import sys

import pytest
from servers import do_without

if sys.version_info >= (3, 15):
    pytest.skip("greenlet has no wheel for this Python", allow_module_level=True)

from simulation.kernel import Kernel
from simulation.redis_server import SimulatedRedis
from simulation.run import Script, simulate

pytestmark = pytest.mark.timeout(600)  # beside the other tests, with a share of a processor


@pytest.fixture(autouse=True)
def needs(server_program: str) -> None:
    if shutil.which("cc") is None:
        do_without("there is no C compiler: install the package build-essential")


def script_of(seed: int) -> Script:
    return dataclasses.replace(Script.of(seed, "redis"), days=1, work_s=150, faults_per_minute=2)


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_fleet_on_redis_keeps_its_promises(seed: int) -> None:
    outcome = simulate(script_of(seed))
    assert not outcome.complaints
    assert outcome.runs > 5


def test_a_seed_makes_the_same_run_on_redis_again() -> None:
    script = dataclasses.replace(
        script_of(2), work_s=60, jobs_per_minute=20, faults_per_minute=6, faults=("trouble", "kill")
    )
    first, second = simulate(script), simulate(script)
    assert first.checksum == second.checksum
    assert first.runs > 10


def test_the_clocks_of_the_server_are_those_of_the_simulation() -> None:
    kernel = Kernel("clocks")
    server = SimulatedRedis(kernel)
    try:
        server.ask(("SET", "short", "", "EX", 60), ("SET", "long", "", "PX", 3_600_001))
        server.ask(("XADD", "calls", "*", "", ""))
        [begun] = server.ask(("TIME",))
        kernel.now += 60
        server.step(3_540)
        assert server.ask(("EXISTS", "short"), ("PTTL", "long"), ("DBSIZE",)) == [0, 1, 2]
        [[seconds, micros]] = server.ask(("TIME",))
        assert [int(seconds) - 3_600, micros] == [int(begun[0]), begun[1]]
        kernel.now += 0.002
        assert server.ask(("EXISTS", "long"), ("XLEN", "calls")) == [0, 1]
        server.step(-7_200)
        assert server.ask(("TIME",)) == [[b"%d" % (int(seconds) - 7_200), b"%d" % (int(micros) + 2_000)]]
    finally:
        server.close()
