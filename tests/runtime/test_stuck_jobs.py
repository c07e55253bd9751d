"""A process replaces workers whose jobs do not end at their time limit, or stops. With real jobs: test_watchdog.py."""

from __future__ import annotations

import math
import threading

import pytest
from apps import job, shared

from goworkers_py.config.options import Config
from goworkers_py.core.clock import Deadline
from goworkers_py.core.command import Command
from goworkers_py.runtime.running.stuck_jobs import StuckJobs
from goworkers_py.runtime.running.watchdog import Watched
from goworkers_py.wire.message import Message


class Pool:
    def __init__(self, queue: str) -> None:
        self.queues = [queue]
        self.replaced: list[str] = []

    def replace(self, name: str) -> bool:
        self.replaced.append(name)
        return True


class Finding:
    def __init__(self, embedded: bool = False, **options: int) -> None:
        self.pools = [Pool("other"), Pool("q")]
        self.asked: list[tuple[Command, str]] = []
        self.shared = shared()
        obey = None if embedded else lambda command, who: self.asked.append((command, who))
        self._stuck_jobs = StuckJobs(Config(**options), self.shared, lambda: self.pools, obey)  # type: ignore[arg-type, return-value]

    def find(self, stuck: int) -> None:
        """The newest of so many."""
        thread = threading.Thread(name=f"worker:q:{stuck}")
        self._stuck_jobs.found(Watched(Message(job(), "q"), "why", True, 0.0, thread), stuck)


def test_each_is_counted_and_its_worker_replaced_while_there_are_spares(caplog: pytest.LogCaptureFixture) -> None:
    finding = Finding(stuck_spares=2)
    for stuck in (1, 2, 3):
        finding.find(stuck)
    assert [pool.replaced for pool in finding.pools] == [[], ["worker:q:1", "worker:q:2"]]
    assert finding.shared.counters.snapshot() == {"stuck": 3}
    assert caplog.messages == [
        f"started another worker, because the job of worker:q:{number} is stuck" for number in (1, 2)
    ]
    assert finding.asked == []


def test_at_so_many_the_process_is_asked_to_stop_once(caplog: pytest.LogCaptureFixture) -> None:
    finding = Finding(stuck_spares=0, stuck_exit=2)
    finding.find(1)
    assert not finding.shared.state.gave_up
    finding.find(2)
    finding.find(3)
    assert finding.asked == [(Command.STOP, "the watchdog")]
    assert finding.shared.state.gave_up
    assert caplog.messages == ["2 jobs are stuck: stopping, to be started again"]


@pytest.mark.parametrize(("timeout_s", "asks"), [(20.0, False), (math.inf, True)], ids=["in time", "with patience"])
def test_a_stop_that_runs_is_asked_for_again_only_where_it_would_wait_for_ever(timeout_s: float, asks: bool) -> None:
    finding = Finding(stuck_spares=0, stuck_exit=1)
    finding.shared.state.deadline = Deadline(timeout_s)
    finding.find(1)
    assert bool(finding.asked) == asks


def test_a_part_of_another_program_says_what_only_that_one_can_do(caplog: pytest.LogCaptureFixture) -> None:
    finding = Finding(embedded=True, stuck_spares=0, stuck_exit=1)
    finding.find(1)
    finding.find(2)
    [line] = caplog.messages
    assert line.startswith("1 jobs are stuck; restart this program")
