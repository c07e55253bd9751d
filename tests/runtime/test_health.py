"""The health that a process reports."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from apps import begun, job, own_app, shared, started
from waiting import eventually

from goworkers_py.config.options import QueueConfig
from goworkers_py.core.clock import Deadline
from goworkers_py.core.delivery import Delivery
from goworkers_py.observe.health_report import all_stuck, in_words
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.runtime.alive import health as module
from goworkers_py.runtime.alive.health import Health
from goworkers_py.runtime.alive.lease import Lease


class Managing:
    """A manager, as far as it is looked at."""

    def __init__(self, queue: str, concurrency: int, *running: Delivery, waiting: int = 0, more: str = "") -> None:
        self.name, self.concurrency, self.waiting = queue, concurrency, lambda queue: waiting
        self.queues = [queue, *more.split()]
        self.lanes = {queue: SimpleNamespace(queue=queue, run_stats=RunStats()) for queue in self.queues}
        self.running = {f"worker:{queue}:{number}": delivery for number, delivery in enumerate(running, 1)}

    def stuck_threads(self, stuck: set[str], queue: str) -> int:
        return sum(name in stuck and delivery.queue == queue for name, delivery in self.running.items())


class Process:
    def __init__(
        self, *pools: Managing, lease: Lease | None = None, stuck: tuple[str, ...] = (), still_s: float = 0
    ) -> None:
        self.shared = shared(lease)
        self.shared.state.started = True
        watchdog = SimpleNamespace(stuck=set(stuck))
        loops = [SimpleNamespace(name="heartbeat", still_s=still_s)]
        self.health = Health(pools, watchdog, lambda: loops, self.shared)  # type: ignore[arg-type]


def running(queue: str, jid: str = "j", for_s: float = 0.0) -> Delivery:
    return begun(Delivery(job(jid=jid), queue, "me"), time.time() - for_s)


def test_queues_threads_and_jobs_are_told_by_name() -> None:
    mail, long = Managing("mail", 3, running("mail", "a", 7), waiting=2), Managing("long", 2, running("long", "b", 50))
    told = Process(mail, long, stuck=("worker:long:1",)).health.report()
    assert told["queues"] == {
        "mail": {"busy": 1, "capacity": 3, "waiting": 2, "stuck": 0},
        "long": {"busy": 1, "capacity": 2, "waiting": 0, "stuck": 1},
    }
    assert told["oldest_s"] == pytest.approx(50, abs=15)
    assert (told["state"], told["stale"], told["cut_off"], told["processes"]) == ("working", "", "", 1)
    assert [job["message"] for job in told["running"]["long"]] == [job_text("b")]


def test_the_threads_of_a_pool_are_told_once_and_its_jobs_by_queue() -> None:
    jobs = running("a", "1", 7), running("low", "2", 9), running("low", "3", 9)
    pool, own = Managing("web", 3, *jobs, more="low a"), Managing("mail", 2, running("mail"))
    pool.queues = ["a", "low"]
    told = Process(pool, own, stuck=("worker:web:2", "worker:web:3")).health.report()
    assert told["queues"] == {
        "a": {"busy": 1, "capacity": 0, "waiting": 0, "stuck": 0},
        "low": {"busy": 2, "capacity": 0, "waiting": 0, "stuck": 2},
        "mail": {"busy": 1, "capacity": 2, "waiting": 0, "stuck": 0},
    }
    assert told["pools"] == {"web": {"capacity": 3, "stuck": 2}}
    assert [one["message"] for one in told["running"]["low"]] == [job_text("2"), job_text("3")]
    assert in_words(told) == "working, 4 of 5 threads busy, queues a, low, mail"
    told = Process(pool, stuck=tuple(f"worker:web:{number}" for number in (1, 2, 3))).health.report()
    assert all_stuck(told) == "stuck jobs hold all threads of pool web"


def job_text(jid: str) -> str:
    return job(jid=jid).decode()


def test_by_the_name_of_the_thread_it_is_known_what_runs() -> None:
    delivery = running("q")
    assert Process(Managing("q", 1, delivery)).health.running == {"worker:q:1": delivery}


def test_a_job_that_just_goes_back_is_not_taken_for_one_that_runs_since_ever() -> None:
    assert Process(Managing("q", 2, running("q", for_s=3), Delivery(job(), "q", "me"))).health.report()["oldest_s"] < 60


def test_counts_are_there_from_the_start_and_an_outage_counts_in_seconds() -> None:
    process = Process(Managing("q", 1))
    process.shared.counters.add("recovered", 2)
    assert process.health.report()["counts"] == {
        "recovered": 2, "poison": 0, "stuck": 0, "lost_leases": 0, "settle_retries": 0, "outage_seconds": 0,
        "expired": 0, "periodic_fired": 0, "periodic_skipped": 0, "periodic_late_seconds": 0,
    }  # fmt: skip


def test_a_started_process_without_a_fresh_lease_is_cut_off() -> None:
    process = Process(Managing("q", 1), lease=Lease(50))
    assert process.health.report()["cut_off"] == "the server was not reached for 0 s"
    process.shared.state.started = False
    assert process.health.report()["cut_off"] == ""


def test_why_no_jobs_are_fetched_is_told_in_a_few_words() -> None:
    process = Process(Managing("q", 1, running("q")), stuck=("worker:q:1",))
    assert process.health.trouble() == "stuck jobs hold all threads of queue q"
    process.shared.state.quiet = True
    assert process.health.trouble() == "quiet"
    process.shared.state.deadline = Deadline(1)
    assert process.health.trouble() == "stopping"
    assert Process(Managing("q", 1)).health.trouble() == ""


def test_a_loop_that_stands_still_comes_before_all_other_trouble() -> None:
    process = Process(Managing("q", 1), still_s=module.STALE_AFTER_S + 1)
    process.shared.state.quiet = True
    assert process.health.trouble() == f"heartbeat stands still for {module.STALE_AFTER_S + 1:.0f} s"


def test_a_fetch_loop_that_stands_still_is_named(redis_url: str) -> None:
    with own_app(redis_url, QueueConfig("q")) as app, started(app) as launcher:
        assert launcher.health.report()["stale"] == ""
        launcher.health.stale_after_s = 0.0
        assert eventually(lambda: "fetcher:q stands still for 0 s" in launcher.health.report()["stale"])
        launcher.stop()
        assert launcher.health.report()["stale"] == ""
        assert launcher.health.report()["state"] == "stopping"
