"""A daemon is put together from its parts, and nothing is started by that."""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest
import redis as redis_py
from apps import own_app, started
from waiting import eventually

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.clock import Clock
from goworkers_py.core.command import Command
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.timing import Timing
from goworkers_py.runtime.assembly import assemble
from goworkers_py.runtime.scheduling.due_hints import DueHints

NOWHERE = "redis://127.0.0.1:9/0"


class Bare(Broker):
    name = "Bare"
    capabilities: Collection[Capability] = {Capability.DELAYS}


def test_what_a_daemon_needs_of_its_broker_is_asked_for_first() -> None:
    with own_app(NOWHERE) as app, pytest.raises(ConfigError) as refused:
        assemble(app.runner.plan(), Bare(), Clock(), DueHints())
    assert str(refused.value) == (
        "broker: Bare has no store and no recovery of the jobs of dead processes and no commands to processes: "
        "set another broker"
    )


def test_several_processes_are_refused_where_each_would_have_jobs_of_its_own() -> None:
    with own_app("memory://", processes=2) as app, pytest.raises(ConfigError) as refused:
        app.runner.launcher()
    assert str(refused.value) == "broker: memory has no jobs that several processes share: set another broker"


def test_pages_are_refused_where_nothing_can_be_listed() -> None:
    class Blind(MemoryBroker):
        capabilities = frozenset(Capability) - {Capability.ADMIN}

    with own_app("memory://", stats_port=8080) as app, pytest.raises(ConfigError) as refused:
        assemble(app.runner.plan(), Blind.open(app.config), Clock(), DueHints())
    assert str(refused.value) == "broker: memory has no lists of jobs: set another broker"


def test_nothing_is_started_and_no_server_asked(caplog: pytest.LogCaptureFixture) -> None:
    before = set(threading.enumerate())
    with own_app(NOWHERE, QueueConfig("a", concurrency=2), QueueConfig("b")) as app:
        app.before_start(lambda: pytest.fail("it was started"))
        launcher = app.runner.launcher()
        assert [(manager.name, manager.concurrency) for manager in launcher.managers] == [("a", 2), ("b", 10)]
        assert launcher.health.report()["state"] == "starting"
        assert launcher.workers_alive == 0
        assert set(threading.enumerate()) == before
    assert not caplog.records


def test_a_job_that_this_program_schedules_wakes_the_scheduler_of_its_daemon(redis_url: str) -> None:
    ran = threading.Event()
    with own_app(redis_url, poll_interval=600) as app:
        app.process("q", lambda message: ran.set(), 1)
        with started(app):
            app.enqueue_in("q", "J", 0.2, [])
            assert ran.wait(20)


@pytest.mark.parametrize("embedded", [False, True])
def test_what_the_fleet_asks_for_is_for_a_daemon_and_not_for_a_part_of_another_program(
    embedded: bool, redis_url: str, redis: redis_py.Redis
) -> None:
    asked: list[tuple[Command, str]] = []
    with own_app(redis_url, QueueConfig("q")) as app:
        app.timing = Timing(beat_every_s=0.02)
        obey = None if embedded else lambda command, who: asked.append((command, who))
        with started(app, obey) as launcher:
            words = f"{launcher.identity}-signals"
            redis.lpush(words, "TSTP", "TERM")
            assert eventually(lambda: not redis.exists(words))
            eventually(lambda: len(asked) == 2, 0.3 if embedded else 20)
    assert asked == ([] if embedded else [(Command.QUIET, "the fleet"), (Command.STOP, "the fleet")])
