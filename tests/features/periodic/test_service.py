"""The firer on a memory broker whose clock the tests set."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from other_machine import other_machine

from goworkers_py.admin.places import SCHEDULED, waiting_in
from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.memory.broker import MemoryBroker, forget, state_at
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.outcome import Done
from goworkers_py.features.periodic import service as module
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.periodic.schedule import Firing, FiringResult, Release
from goworkers_py.features.periodic.service import LOOK_EVERY_S, Firer
from goworkers_py.observe.counters import Counters
from goworkers_py.policy.consequences import consequences
from goworkers_py.runtime.outage import Outage
from goworkers_py.wire import payload

MIDNIGHT = 1_700_006_400.0


class World:
    """A program with periodic jobs, and the clock of its broker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.now = MIDNIGHT
        state_at(address).clock = lambda: self.now
        self.app = self.program()
        self.counters = Counters()

    def program(self, **options: Any) -> App:
        app = App()
        app.configure(broker=self.address, **options)
        return app

    def firer(self, app: App | None = None) -> Firer:
        app = app or self.app
        return Firer(app.broker, app.runner.plan().of_features["periodic"], self.counters, Outage("memory"))

    def jobs(self, queue: str = "q") -> list[dict[str, Any]]:
        return [json.loads(one.payload) for one in self.app.broker.admin.jobs_in(waiting_in(queue)).first(10_000)]

    def words(self, name: str = "tick") -> list[str]:
        return [one.word for one in self.app.inspector.periodic_history(name)]

    def run(self, queue: str = "q") -> None:
        """Runs the next job."""
        broker = self.app.broker
        assert isinstance(broker, MemoryBroker)
        broker.recoverable.beat(Presence("me:1:a", {"q": 1}))
        [delivery] = broker.transport.consume("me:1:a", [(queue, 1)], 1, 0.0)
        effects = consequences(payload.read(delivery.payload), Done(), self.now)
        broker.transport.settle(SettlementBatch("me", int(self.now * 1_000), [(delivery, Done(effects=effects))]))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(f"memory://{tmp_path.name}")
    yield world
    forget(world.address)


def tick(app: App, every: int = 60, **options: Any) -> None:
    @app.periodic(every=every, **options)
    @app.job(queue="q")
    def tick(*args: Any) -> None: ...


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Whatever level an earlier test has left behind."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_slot_fires_when_it_is_due_and_the_thread_sleeps_until_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    took_s = itertools.cycle([0.0, 0.25])  # each look, however busy the machine is
    monkeypatch.setattr(module, "machine", other_machine(monotonic=took_s.__next__))
    tick(world.app)
    firer = world.firer()
    assert firer.run_once() <= LOOK_EVERY_S * 1.25
    world.now += 58.5
    assert firer.run_once() == pytest.approx(1.5 - 0.25)
    assert world.jobs() == []
    world.now += 2
    firer.run_once()
    firer.run_once()
    [job] = world.jobs()
    assert (job["class"], job["args"], job["queue"]) == ("tick", [], "q")
    counted = world.counters.snapshot()
    assert (counted["periodic_fired"], counted["periodic_late_seconds"]) == (1, pytest.approx(0.5))


def test_two_processes_fire_each_slot_once(world: World) -> None:
    tick(world.app)
    one, two = world.firer(), world.firer()
    one.run_once()
    for _ in range(5):
        world.now += 60
        two.run_once()
        one.run_once()
    assert len(world.jobs()) == 5


def test_a_process_that_is_late_with_an_old_state_fires_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """asynq#653 #1013 #554 #371: two schedulers of asynq enqueue each task twice."""
    tick(world.app)
    late, quick = world.firer(), world.firer()
    late.run_once()
    world.now += 60
    fire = world.app.broker.require_part(Periodic).fire

    def quick_first(release: Release, firing: Firing) -> FiringResult:
        monkeypatch.setattr(world.app.broker.require_part(Periodic), "fire", fire)
        quick.run_once()
        return fire(release, firing)

    monkeypatch.setattr(world.app.broker.require_part(Periodic), "fire", quick_first)
    assert late.run_once() < 0.01  # looks again at once
    late.run_once()
    assert len(world.jobs()) == 1


@pytest.mark.parametrize(
    ("catch_up", "jobs", "words"),
    [("none", 0, ["missed"]), ("latest", 1, ["fired"]), ("all", 3, ["fired", "fired", "fired"])],
)
def test_what_was_missed_while_all_processes_were_down(
    world: World, catch_up: str, jobs: int, words: list[str]
) -> None:
    tick(world.app, 3_600, catch_up=catch_up)
    world.firer().run_once()
    world.now += 3 * 3_600 + 900
    world.firer().run_once()
    assert len(world.jobs()) == jobs
    assert world.words() == words


def test_arguments_may_be_made_from_the_time_of_the_slot(world: World) -> None:
    @world.app.periodic("0 3 * * *", timezone="Europe/Berlin", args=lambda slot: [slot.isoformat()])
    @world.app.job(queue="q")
    def nightly(day: str) -> None: ...

    world.firer().run_once()
    world.now += 86_400
    world.firer().run_once()
    assert [job["args"] for job in world.jobs()] == [["2023-11-15T03:00:00+01:00"]]


# --- overlaps


def test_with_skip_no_job_is_pushed_while_the_last_one_waits_or_runs(world: World) -> None:
    tick(world.app, overlap="skip")
    firer = world.firer()
    firer.run_once()
    for _ in range(3):
        world.now += 60
        firer.run_once()
    assert len(world.jobs()) == 1
    assert world.words() == ["skipped", "skipped", "fired"]
    world.run()
    world.now += 60
    firer.run_once()
    assert len(world.jobs()) == 1
    assert world.words()[0] == "fired"
    assert world.counters.snapshot()["periodic_skipped"] == 2


def test_a_last_job_that_somebody_has_deleted_does_not_keep_the_next_one_back(world: World) -> None:
    tick(world.app, overlap="skip")
    world.firer().run_once()
    world.now += 60
    world.firer().run_once()
    state_at(world.address).queues["q"].clear()  # as another program does
    world.now += 60
    world.firer().run_once()
    assert world.words() == ["fired", "fired"]


def test_with_queue_each_job_runs_after_the_last_one(world: World) -> None:
    tick(world.app, overlap="queue")
    world.firer().run_once()
    for _ in range(3):
        world.now += 60
        world.firer().run_once()
    assert len(world.jobs()) == 1
    assert world.app.broker.admin.jobs_in(SCHEDULED).count() == 2
    assert world.words() == ["fired"] * 3


def test_a_unique_job_keeps_its_own_lock(world: World) -> None:
    @world.app.periodic(every=60)
    @world.app.job(queue="q", unique_for=3_600)
    def tick() -> None: ...

    world.firer().run_once()
    assert tick.enqueue() is not None
    world.now += 60
    world.firer().run_once()
    assert len(world.jobs()) == 1
    assert world.words() == ["skipped"]


# --- people


def test_people_pause_resume_run_and_change_a_schedule(world: World) -> None:
    tick(world.app)
    firer, inspector = world.firer(), world.app.inspector
    firer.run_once()
    assert inspector.pause_periodic("tick")
    world.now += 600
    firer.run_once()
    assert world.jobs() == []
    assert inspector.run_periodic("tick")
    firer.run_once()
    firer.run_once()
    assert world.words() == ["asked"]
    assert inspector.resume_periodic("tick")
    firer.run_once()
    assert len(world.jobs()) == 1
    inspector.set_periodic("tick", every=7, args=["by hand"])
    world.now += 7
    firer.run_once()
    assert world.jobs()[-1]["args"] == ["by hand"]
    assert inspector.periodic_jobs()[0].overridden
    assert inspector.unset_periodic("tick")
    assert not inspector.unset_periodic("tick")


def test_a_schedule_of_an_older_generation_does_not_fire(world: World, caplog: pytest.LogCaptureFixture) -> None:
    old, new = world.program(source="shop", generation="9"), world.program(source="shop", generation="10")
    for app in (old, new):
        tick(app)
    world.firer(old).run_once()
    world.firer(new).run_once()
    world.now += 60
    firer = world.firer(old)
    firer.run_once()
    firer.run_once()
    assert world.jobs() == []
    assert warnings(caplog) == [
        "periodic jobs of shop: generation 10 is newer than 9, so this process fires none of them"
    ]
    world.firer(new).run_once()
    assert len(world.jobs()) == 1


def test_a_process_whose_schedule_was_replaced_says_so_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    old, new = world.app, world.program()
    tick(old)
    tick(new, args=["new"])
    firer = world.firer(old)
    firer.run_once()
    world.now += 1
    world.firer(new).run_once()
    world.now += 59
    firer.run_once()
    firer.run_once()
    assert world.jobs() == []
    [told] = warnings(caplog)
    assert told.startswith("periodic job tick does not fire here: another process has a newer schedule of this ")


# --- faults


def test_a_schedule_whose_arguments_cannot_be_made_does_not_keep_the_others_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(slot: object) -> list[Any]:
        raise ValueError("no arguments today")

    tick(world.app, name="broken", args=broken)
    tick(world.app, name="fine")
    firer = world.firer()
    firer.run_once()
    world.now += 60
    firer.run_once()
    firer.run_once()
    assert len(world.jobs()) == 1
    assert warnings(caplog) == ["periodic job broken cannot be pushed, tried again every few seconds"]
    assert world.words("broken") == []


def test_a_schedule_that_the_broker_refuses_does_not_keep_the_others_back(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tick(world.app, name="a")
    tick(world.app, name="b")
    firer, fire = world.firer(), world.app.broker.require_part(Periodic).fire
    firer.run_once()

    def refuse(release: Release, firing: Firing) -> FiringResult:
        if firing.name == "a":
            raise BrokerRefused("WRONGTYPE")
        return fire(release, firing)

    with monkeypatch.context() as patch:
        patch.setattr(world.app.broker.require_part(Periodic), "fire", refuse)
        world.now += 60
        firer.run_once()
        firer.run_once()
        assert len(world.jobs()) == 1
        assert warnings(caplog) == ["periodic:a: memory refuses: WRONGTYPE; trying again"]
    firer.run_once()
    assert len(world.jobs()) == 2


def test_a_push_that_a_client_link_stops_settles_its_slot(world: World) -> None:
    world.app.client_middleware(lambda job: None)
    tick(world.app)
    firer = world.firer()
    firer.run_once()
    world.app.inspector.run_periodic("tick")
    world.now += 60
    firer.run_once()
    firer.run_once()
    assert world.words() == ["stopped", "stopped"]
    assert world.jobs() == []
