from __future__ import annotations

import dataclasses
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import redis as redis_py
from apps import fields, in_progress, job, own_app, own_broker, queue, started
from gates import Gate
from servers import RedisServer
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.redis.fleet.leases import RedisLeases
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.command import Command
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.proc import origin
from goworkers_py.core.timing import Timing
from goworkers_py.links.time_limit import Watched
from goworkers_py.policy.poison import RecoveryDecision, name_of
from goworkers_py.runtime.alive.heartbeat import Heartbeat
from goworkers_py.runtime.fetching.fetcher import Fetcher
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.manager import Manager
from goworkers_py.runtime.recovering.recoverer import Recoverer
from goworkers_py.runtime.running.stuck_jobs import StuckJobs
from goworkers_py.runtime.running.watchdog import Watchdog
from goworkers_py.runtime.scheduling.scheduler import Scheduler
from goworkers_py.wire.message import Message

KEYS = Keys()


def never() -> threading.Event:
    return threading.Event()


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, timeout=20) as app:
        yield app


def stopping(launcher: Launcher) -> threading.Thread:
    thread = threading.Thread(target=launcher.stop, name="stopper")
    thread.start()
    return thread


# --- start


def test_a_process_is_one_manager_a_queue_and_one_of_each_shared_service(app: App) -> None:
    app.process("a", print, 1)
    app.process("b", print, 2)
    before = {thread.name for thread in threading.enumerate()}

    def begun() -> list[str]:
        return sorted(thread.name for thread in threading.enumerate() if thread.name not in before)

    with started(app) as launcher:
        # The listener is begun by the first of the other threads that listens.
        assert eventually(lambda: "listener" in begun())
        assert begun() == [
            "canceller", "commands", "fetcher:a", "fetcher:b", "heartbeat", "listener", "lock keeper", "pauses",
            "recoverer", "relay", "scheduler", "settler:a", "settler:b", "tracker", "watchdog", "worker:a:1",
            "worker:b:1", "worker:b:2",
        ]  # fmt: skip
        assert launcher.workers_alive == 3
        assert launcher.stop()
        assert launcher.workers_alive == 0


def test_the_lease_exists_before_the_first_fetch_and_hooks_run_between(app: App, redis: redis_py.Redis) -> None:
    seen = []

    def look() -> None:
        seen.append((len(redis.keys(KEYS.lease("*"))), redis.llen("queue:q")))

    app.before_start(look)
    app.before_start(lambda: seen.append("second"))
    app.process("q", print, 1)
    app.enqueue("q", "J", [])
    with started(app) as launcher:
        assert eventually(lambda: redis.get("stat:processed") == b"1")
        launcher.stop()
        assert seen == [(1, 1), "second"]


def test_a_start_without_a_server_goes_on_until_one_comes_and_says_so_once(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    own_redis.kill()
    with own_app(own_redis.url) as app, caplog.at_level(logging.INFO, "goworkers_py"):
        app.process("q", print, 1)
        launcher = app.runner.launcher()
        start = threading.Thread(target=lambda: launcher.start(never()), daemon=True)
        start.start()
        assert eventually(lambda: "Redis cannot serve" in caplog.text)
        time.sleep(0.5)
        own_redis.start()
        start.join(30)
        assert launcher.workers_alive == 1
        assert launcher.stop()
    levels = [(record.levelname, record.getMessage()[:18]) for record in caplog.records][:2]
    assert levels == [("ERROR", "Redis cannot serve"), ("WARNING", "Redis serves again")]


def test_a_start_that_waits_for_a_server_ends_when_a_stop_is_asked_for(own_redis: RedisServer) -> None:
    own_redis.kill()
    with own_app(own_redis.url) as app:
        app.before_start(lambda: pytest.fail("there was no server"))
        launcher, stop_asked = app.runner.launcher(), threading.Event()
        answers: list[bool] = []
        start = threading.Thread(target=lambda: answers.append(launcher.start(stop_asked)), daemon=True)
        start.start()
        time.sleep(0.2)
        stop_asked.set()
        start.join(20)
        assert answers == [False]


def left_by_poison(redis: redis_py.Redis, jid: str) -> None:
    """A process of this machine died while it ran, alone, a job that had been running at two other deaths."""
    raw = job(jid=jid, recovered={"count": 2, "since": time.time()})
    entry = {
        "v": 1,
        "queues": {"q": 1},
        "trial": name_of(Message(raw, "q")),
        "origin": origin() | {"pid": 2**22, "started": 1},
    }
    redis.hset(KEYS.owners, "dead:1:a", json.dumps(entry))
    redis.lpush(KEYS.inprogress("q", "dead:1:a"), raw)


def test_deaths_of_jobs_found_at_the_start_are_told_after_the_start_hooks(
    redis_url: str, redis: redis_py.Redis
) -> None:
    """A handler may need what the hook prepares."""
    seen: list[str] = []
    left_by_poison(redis, "j1")
    with own_app(redis_url) as app:
        app.process("q", print, 1)
        app.before_start(lambda: seen.append("hook"))
        app.on_death(lambda message, error: seen.append(message.jid))
        with started(app):
            assert eventually(lambda: seen == ["hook", "j1"])
    assert redis.zcard("dead") == 1


@pytest.mark.parametrize("since", ["1e999", "9" * 400, "-1e999", '"soon"'])
def test_no_payload_that_a_dead_process_left_stops_a_start(redis_url: str, redis: redis_py.Redis, since: str) -> None:
    entry = {"queues": {"q": 9, "odd": 1}, "origin": origin() | {"pid": 2**22, "started": 1}}
    redis.hset(KEYS.owners, "dead:1:a", json.dumps(entry))
    odd = b'{"class":"J","args":[],"jid":"odd","recovered":{"count":1,"since":%b}}' % since.encode()
    redis.lpush(KEYS.inprogress("q", "dead:1:a"), job(jid="first"), odd, b"no job", job(jid="last"))
    ran: list[str] = []
    with own_app(redis_url) as app:
        app.process("q", lambda message: ran.append(message.jid), 1)
        with started(app):
            assert eventually(lambda: sorted(ran) == ["first", "last", "odd"])


def test_a_name_that_a_live_process_has_is_refused_at_start(redis_url: str) -> None:
    with own_app(redis_url, process="one") as first, own_app(redis_url, process="one") as second:
        with started(first), pytest.raises(BrokerRefused, match="the process name 'one' is in use"):
            second.runner.launcher().start(never())
        with started(second):
            pass


def test_a_start_hook_that_fails_leaves_nothing_on_the_server(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url, process="one") as app:
        app.before_start(lambda: pytest.fail("no model"))
        app.process("q", print, 1)
        launcher = app.runner.launcher()
        with pytest.raises(pytest.fail.Exception, match="no model"):
            launcher.start(never())
        assert launcher.workers_alive == 0
        assert not redis.exists(KEYS.lease(launcher.identity))
    with own_app(redis_url, process="one") as next_one, started(next_one):
        pass


def test_it_is_told_of_by_its_identity_and_its_queues(app: App) -> None:
    app.process("a", print, 1)
    app.process("b", print, 2)
    launcher = app.runner.launcher()
    assert str(launcher) == f"{launcher.identity} is processing a (1 threads), b (2 threads)"


# --- stop


def test_a_process_whose_fetch_may_still_come_is_remembered(
    app: App, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.process("q", print, 1)
    with started(app) as launcher:
        with monkeypatch.context() as patch:
            patch.setattr(Fetcher, "alive", property(lambda fetcher: True))
            launcher.stop()
        assert redis.hexists(KEYS.gone, launcher.identity)
        assert redis.hexists(KEYS.owners, launcher.identity)


def test_no_beat_follows_deregistering(app: App, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Heartbeat] = []
    start = Heartbeat.start
    monkeypatch.setattr(Heartbeat, "start", lambda it: [made.append(it), start(it)][1])
    app.process("q", print, 1)
    with started(app) as launcher:
        launcher.stop()
        made[0].beat()  # as the worker of a suspect that is not over would
        assert not redis.exists(KEYS.owners, KEYS.lease(launcher.identity))


def ends_by_its_hook(app: App, stop_asked: threading.Event, patch: pytest.MonkeyPatch) -> None:
    app.before_start(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        app.runner.launcher().start(stop_asked)


def ends_by_a_refusal(app: App, stop_asked: threading.Event, patch: pytest.MonkeyPatch) -> None:
    def refuse(heartbeat: Heartbeat) -> None:
        raise BrokerRefused("the process name is in use")

    patch.setattr(Heartbeat, "beat", refuse)
    with pytest.raises(BrokerRefused):
        app.runner.launcher().start(stop_asked)


def ends_by_a_stop(app: App, stop_asked: threading.Event, patch: pytest.MonkeyPatch) -> None:
    def fail(heartbeat: Heartbeat) -> None:
        stop_asked.set()
        raise BrokerUnavailable("timed out")

    patch.setattr(Heartbeat, "beat", fail)
    assert not app.runner.launcher().start(stop_asked)


@pytest.mark.parametrize("end", [ends_by_its_hook, ends_by_a_refusal, ends_by_a_stop])
def test_handlers_are_told_of_deaths_also_when_the_start_ends_early(
    app: App,
    redis: redis_py.Redis,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[App, threading.Event, pytest.MonkeyPatch], None],
) -> None:
    told: list[str] = []
    app.on_death(lambda message, error: told.append(message.jid))
    app.process("q", print, 1)
    left_by_poison(redis, "j")
    end(app, never(), monkeypatch)
    assert told == ["j"]


def test_a_stop_takes_the_name_of_a_suspect_back_at_once(
    app: App, redis: redis_py.Redis, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be killed before the next beat, which says nothing of the job."""

    def alone() -> list[str]:
        return [json.loads(entry)["trial"] for entry in redis.hvals(KEYS.owners)]

    app.timing = Timing(beat_every_s=40)
    app.process("q", gate, 1)
    suspect = job(jid="suspect", recovered={"v": 1, "count": 2, "since": time.time()})
    redis.lpush("queue:q", suspect)
    with started(app) as launcher:
        assert eventually(lambda: gate.running == ["suspect"])
        assert alone() == [name_of(Message(suspect, "q"))]
        stopper = stopping(launcher)
        assert eventually(lambda: alone() == [""])
        gate.open.set()
        stopper.join(30)


def test_stop_finishes_what_runs_gives_back_what_does_not_and_leaves_nothing_on_the_server(
    redis_url: str, redis: redis_py.Redis, gate: Gate
) -> None:
    with own_app(redis_url, QueueConfig("q", concurrency=2, prefetch=2), timeout=20) as app:
        app.registry.handle("q", gate)
        jids = app.enqueue_bulk("q", "J", [[number] for number in range(6)])
        with started(app) as launcher:
            assert eventually(lambda: len(gate.running) == 2)
            stop = stopping(launcher)
            assert eventually(lambda: fields(queue(redis), "jid") == jids[2:])
            assert stop.is_alive()
            gate.open.set()
            stop.join()
    assert fields(queue(redis), "jid") == jids[2:]
    assert not in_progress(redis)
    assert redis.get("stat:processed") == b"2"
    assert not redis.exists(KEYS.lease(launcher.identity))


def test_a_job_that_outlasts_the_timeout_is_given_back_and_named(
    redis_url: str, redis: redis_py.Redis, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    with own_app(redis_url, timeout=0.2) as app:
        app.process("q", gate, 1)
        with started(app) as launcher:
            jid = app.enqueue("q", "J", [])
            assert eventually(lambda: gate.running)
            assert launcher.stop()
            assert launcher.workers_alive == 1
            assert fields(queue(redis), "jid") == [jid]
            assert f"not finished in time, requeued: class=J jid={jid} queue=q" in caplog.text
            gate.open.set()
            assert eventually(lambda: launcher.workers_alive == 0)
    assert fields(queue(redis), "jid") == [jid]
    assert not redis.exists("stat:processed")


@pytest.mark.parametrize("moment", ["during the stop", "before the stop"])
def test_hurry_waits_for_no_job(
    moment: str, app: App, redis: redis_py.Redis, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    app.process("q", gate, 1)
    with started(app) as launcher:
        jid = app.enqueue("q", "J", [])
        assert eventually(lambda: gate.running)
        if moment == "before the stop":
            launcher.hurry()
        stop = stopping(launcher)
        if moment == "during the stop":
            time.sleep(0.1)
            assert stop.is_alive()
            launcher.hurry()
        stop.join(10)  # the timeout is 20
        assert not stop.is_alive()
        assert fields(queue(redis), "jid") == [jid]
        assert jid in caplog.text


def test_quiet_fetches_nothing_more_and_what_runs_ends(app: App, redis: redis_py.Redis, gate: Gate) -> None:
    app.process("q", gate, 1)
    with started(app) as launcher:
        first = app.enqueue("q", "J", [])
        assert eventually(lambda: gate.running == [first])
        launcher.quiet()
        launcher.quiet()
        second = app.enqueue("q", "J", [])
        gate.open.set()
        assert eventually(lambda: redis.get("stat:processed") == b"1")
        time.sleep(0.2)
        assert fields(queue(redis), "jid") == [second]
        assert launcher.stop()
        assert gate.running == [first]


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_drain_hooks_run_while_jobs_do_and_one_that_fails_is_reported(
    error: type[BaseException], app: App, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[object] = []

    def fails() -> None:
        seen.append(len(launcher.health.running))
        raise error

    app.during_drain(fails)
    app.during_drain(lambda: (seen.append("second"), gate.open.set()))  # type: ignore[arg-type, func-returns-value]
    app.process("q", gate, 1)
    with started(app) as launcher:
        app.enqueue("q", "J", [])
        assert eventually(lambda: gate.running)
        assert launcher.stop()
        assert seen == [1, "second"]
        assert "a during_drain hook failed" in caplog.text


def test_a_drain_hook_has_as_long_as_the_jobs(redis_url: str) -> None:
    release = threading.Event()
    with own_app(redis_url, timeout=0.3) as app:
        app.during_drain(lambda: release.wait(40))  # type: ignore[arg-type, return-value]
        app.process("q", print, 1)
        with started(app) as launcher:
            began = time.monotonic()
            assert launcher.stop()
            assert 0.3 <= time.monotonic() - began < 20
            release.set()


def test_hurry_waits_for_no_drain_hook(app: App) -> None:
    begun, release = threading.Event(), threading.Event()

    def hook() -> None:
        begun.set()
        release.wait(40)

    app.during_drain(hook)
    app.process("q", print, 1)
    with started(app) as launcher:
        stop = stopping(launcher)
        assert begun.wait(20)
        assert eventually(lambda: launcher.workers_alive == 0)
        time.sleep(0.2)  # it waits for the hook alone
        launcher.hurry()
        stop.join(10)  # the timeout is 20
        assert not stop.is_alive()
        release.set()


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("stops", [False, True])
def test_enough_stuck_jobs_ask_for_a_stop_but_hurry_none(
    stops: bool, redis_url: str, redis: redis_py.Redis, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Command] = []
    real = StuckJobs.found

    def found(jobs: StuckJobs, watched: Watched, stuck: int) -> None:
        # The job may be stuck before the thread that stops has got a processor.
        assert not stops or eventually(lambda: launcher.state.will_end)
        real(jobs, watched, stuck)

    monkeypatch.setattr(StuckJobs, "found", found)
    with own_app(redis_url, timeout=20, stuck_grace=0, stuck_exit=1) as app:
        app.process("q", gate, 1)
        with started(app, obey=lambda command, who: asked.append(command)) as launcher:
            redis.lpush("queue:q", job(jid="a", timeout=1))
            assert eventually(lambda: gate.running)
            stop = stopping(launcher) if stops else None
            assert eventually(lambda: launcher.health.report()["counts"]["stuck"] == 1)
            assert eventually(lambda: asked, 0.3 if stops else 20) == ([] if stops else [Command.STOP])
            gate.open.set()
            if stop is not None:
                stop.join()


def test_jobs_in_progress_at_deregistering_are_requeued_and_named(
    app: App, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as what a late reply brought that nobody read."""
    app.process("q", print, 1)
    with started(app) as launcher:
        list_ = f"queue:q:{launcher.identity}:inprogress"
        launcher.managers[0].stop_fetching()
        assert eventually(lambda: not any(thread.name == "fetcher:q" for thread in threading.enumerate()))
        redis.lpush(list_, b'{"class":"Late","jid":"abc"}')
        assert launcher.stop()
        assert fields(queue(redis), "jid") == ["abc"]
        assert f"requeued at the stop of {launcher.identity}: class=Late jid=abc queue=q" in caplog.text


def test_a_stop_without_a_server_ends_in_time_and_says_what_was_left(
    own_redis: RedisServer, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    with own_app(own_redis.url, timeout=20) as app:
        app.process("q", gate, 2)
        with started(app) as launcher:
            app.enqueue_bulk("q", "J", [[1], [2]])
            assert eventually(lambda: len(gate.running) == 2)
            own_redis.kill()
            gate.open.set()
            # When the process deregisters, the settler is the only thread left that has met the outage.
            assert eventually(lambda: launcher.health.report()["counts"]["settle_retries"] >= 2)
            launcher.after_jobs_s = 0.5
            assert not launcher.stop()
            own_redis.start()
            # A settler that was given up on ends too, once there is an answer.
            assert eventually(
                lambda: not {thread.name for thread in threading.enumerate()} & {"settler:q", "fetcher:q"}
            )
            client = own_redis.client()
            assert len(in_progress(client)) + int(client.get("stat:processed") or 0) == 2
    assert "could not deregister from Redis: an outage still lasts" in caplog.text
    assert "jobs that were not settled, to be recovered by others: 2" in caplog.text


def test_a_stop_whose_requeue_is_refused_is_not_clean_and_the_next_process_recovers_the_jobs(
    redis_url: str, redis: redis_py.Redis, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    with own_app(redis_url, timeout=20) as app:
        app.process("q", gate, 2)
        with started(app) as launcher:
            app.enqueue_bulk("q", "J", [[1], [2]])
            assert eventually(lambda: len(gate.running) == 2)
            redis.set("queue:q", "no list")
            launcher.after_jobs_s = 0.5
            assert not launcher.stop(within_s=0.1)
            gate.open.set()
        assert "jobs that stay in progress, because Redis refuses to take them back: 2" in caplog.text
        assert len(in_progress(redis)) == 2
        redis.delete("queue:q")
        with started(app):
            assert eventually(lambda: redis.get("stat:processed") == b"2")
    assert not in_progress(redis)


def test_a_stop_that_requeues_a_job_which_had_ended_is_not_clean(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end cannot be stored, and it runs again."""
    redis.set("dead", "no set")
    with own_app(redis_url) as app:

        @app.job("Fails", queue="q", retry=0)
        def fails() -> None:
            raise ValueError("for good")

        app.use(dataclasses.replace(app.config, queues=(QueueConfig("q"),)))
        with started(app) as launcher:
            fails.enqueue()
            assert eventually(lambda: "Redis refuses" in caplog.text)
            launcher.after_jobs_s = 0.3
            assert not launcher.stop()
    assert "could not be settled in time, and were requeued instead: 1" in caplog.text
    assert len(queue(redis)) == 1


def test_a_process_declared_dead_while_it_works_goes_on_and_runs_nothing_twice_itself(
    redis_url: str, redis: redis_py.Redis, gate: Gate
) -> None:
    with own_app(redis_url, QueueConfig("q", concurrency=1, prefetch=1), timing=Timing(beat_every_s=0.05)) as app:
        app.registry.handle("q", gate)
        with started(app) as launcher:
            running, waiting = app.enqueue_bulk("q", "J", [[1], [2]])
            assert eventually(lambda: len(in_progress(redis)) == 2 and gate.running)
            dead = launcher.identity
            declare_dead(redis_url, redis, dead)
            assert eventually(lambda: launcher.identity != dead)
            gate.open.set()
            # Both were given to others: here to itself again, under its new identity.
            assert eventually(lambda: redis.get("stat:processed") == b"2")
            assert launcher.stop()
    assert gate.running == [running, running, waiting]
    assert not in_progress(redis)
    assert not queue(redis)


def declare_dead(redis_url: str, redis: redis_py.Redis, identity: str) -> None:
    """Another process does this when its recoverer finds that the lease has expired."""
    with own_broker(redis_url) as broker:
        while redis.exists(KEYS.lease(identity)) or not redis.hexists(KEYS.gone, identity):
            redis.delete(KEYS.lease(identity))
            list(broker.recoverable.recover("another", lambda found: RecoveryDecision(found.payload), proof=""))


def test_stop_follows_the_data_and_deregisters_last(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    order: list[str] = []

    def noted(name: str, inner: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            order.append(name)
            return inner(*args, **kwargs)

        return call

    manager = "goworkers_py.runtime.manager.Manager."
    for name in ("stop_fetching", "give_back_unstarted", "join_workers", "give_back_running", "stop_settling"):
        monkeypatch.setattr(manager + name, noted(name, getattr(Manager, name)))
    for kind in (Scheduler, Recoverer, Watchdog, Heartbeat):
        monkeypatch.setattr(kind, "stop", noted(kind.__name__.lower(), kind.stop))
    monkeypatch.setattr(RedisLeases, "leave", noted("deregister", RedisLeases.leave))
    app.process("q", print, 1)
    with started(app) as launcher:
        launcher.stop()
        assert order == [
            "stop_fetching", "give_back_unstarted", "join_workers", "give_back_running", "recoverer", "watchdog",
            "scheduler", "stop_settling", "heartbeat", "deregister",
        ]  # fmt: skip
