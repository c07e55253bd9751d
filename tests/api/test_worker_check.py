"""Before a push with needs: do the live processes know them?"""

from __future__ import annotations

import pytest

from goworkers_py.api import worker_check
from goworkers_py.api.worker_check import WorkerCheck
from goworkers_py.brokers.contracts.recoverable import LiveProcess
from goworkers_py.core.errors import ArgumentError, BrokerRefused

OLD, NEW = LiveProcess("old", ["q"]), LiveProcess("new", ["q"], "0.3.0", {"unique"})


def test_a_feature_that_no_live_worker_of_the_queue_knows_is_refused() -> None:
    elsewhere = LiveProcess("other", ["other"], "0.3.0", {"unique"})
    with pytest.raises(
        ArgumentError,
        match=r"needs unique \(since release 0\.4\.0\), and all .* queue q are older: old \(before 0\.2\.0\)\.",
    ):
        WorkerCheck(lambda: [OLD, elsewhere]).check("q", frozenset({"unique"}))


def test_a_feature_that_some_workers_do_not_know_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    workers = WorkerCheck(lambda: [OLD, NEW])
    for _ in range(2):
        workers.check("q", frozenset({"unique"}))
    [record] = caplog.records
    wanted = (
        "jobs of queue q need unique (since release 0.4.0), and some of its processes are older: old (before 0.2.0). "
    )
    assert record.getMessage().startswith(wanted)


def test_a_queue_without_workers_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    workers = WorkerCheck(list)
    for _ in range(2):
        workers.check("q", frozenset({"unique"}))
    [record] = caplog.records
    assert record.getMessage() == (
        "no live process of pyworkers works queue q, so its jobs wait there. Start one, of release 0.4.0 or later: "
        "pyworkers run -r MODULE -q q"
    )


def test_a_producer_that_may_not_read_the_workers_pushes_without_a_check(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> list[LiveProcess]:
        raise BrokerRefused("NOPERM")

    WorkerCheck(refuse).check("q", frozenset({"unique"}))
    assert "cannot check whether the processes have unique (since release 0.4.0): NOPERM" in caplog.text


def test_the_list_of_workers_is_read_again_after_some_seconds() -> None:
    looks = []
    workers = WorkerCheck(lambda: looks.append(1) or [NEW])  # type: ignore[func-returns-value]
    for _ in range(3):
        workers.check("q", frozenset({"unique"}))
    assert len(looks) == 1
    workers = WorkerCheck(lambda: looks.append(1) or [NEW], look_every_s=0)  # type: ignore[func-returns-value]
    for _ in range(2):
        workers.check("q", frozenset({"unique"}))
    assert len(looks) == 3


def test_the_last_process_of_a_level_may_be_starting_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [LiveProcess("new", ["q", "q@high"], "0.4.0")]
    workers = WorkerCheck(lambda: [*found], look_every_s=0)
    workers.check_level("q", "q@high")
    found.clear()
    workers.check_level("q", "q@high")
    with pytest.raises(ArgumentError, match="no live process works queue q: start a process with this job's code"):
        workers.check_level("q", "q@low")
    monkeypatch.setattr(worker_check, "RESTART_S", 0.0)
    with pytest.raises(ArgumentError, match="no live process works queue q: start a process with this job's code"):
        workers.check_level("q", "q@high")


def test_a_level_that_the_processes_of_its_queue_do_not_work_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"queue q@high: new \(version 0\.3\.0\) work q without priorities"):
        WorkerCheck(lambda: [NEW]).check_level("q", "q@high")
