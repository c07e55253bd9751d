"""A fleet is upgraded and rolled back under kills: no job is lost, and every second run is explained."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from apps import own_app
from chaos.notes import read_runs, read_stated_runs
from chaos.shape_judge import read_shaped_runs
from daemon import pyworkers
from servers import RedisServer
from waiting import eventually

import goworkers_py as workers
from goworkers_py import EnqueueOptions
from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import DEAD
from upgrade import releases
from upgrade.fleet import PROGRESS_S, MixedFleet
from upgrade.releases import Release

pytestmark = pytest.mark.timeout(180)  # a fleet may take a minute for each step

SEED = 7
ENDS_WELL = [0.0, 0, False]  # the arguments of `chaos.stated.stated`
KINDS = {"one", "two", "lined", "tick", "gathered", "batch", "chain", "echo"}
TRACKED, EXPIRING = EnqueueOptions(track=True), EnqueueOptions(track=True, expires_in=1)


def steps_of(count: int, seconds: float, *, cursor: int | None = None) -> Iterator[int]:
    """Has the signature of `chaos.stated.steps`, which runs."""
    yield 0


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return releases.former(tmp_path_factory.mktemp("former"))


@pytest.fixture(scope="module")
def today() -> Release:
    return releases.today()


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with closing(RedisServer(appendonly="no")) as server:
        yield server


def test_the_former_release_is_another_one(former: Release, today: Release) -> None:
    assert former.version != today.version, "upgrade/FORMER is to name the release before this one"


@pytest.mark.timeout(300)
def test_a_fleet_is_upgraded_and_rolled_back_and_nothing_is_lost(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet:
        one, two = fleet.start(former), fleet.start(former)
        fleet.produce(former)
        fleet.produce(today)
        one.await_runs(10)
        for release in (today, former):  # forward, and back
            one = fleet.replace(one, release, "kill")
            two = fleet.replace(two, release, "stop")
        fleet.start(today).await_runs(10)
        result = fleet.account()
    print(result)
    assert result.fine
    assert result.pushed > 100


def push_all_that_is_new(url: str, but: str = "") -> dict[str, str]:
    """The jids, by the feature that the worker must know."""
    with own_app(url) as app:  # a new one does not remember which processes there were
        steps = app.job("Steps", queue="short")(steps_of)
        pushes: dict[str, Callable[[], str | None]] = {
            "kwargs": lambda: app.enqueue_with_options("short", "Task", [0.0], TRACKED, {"failures": 0}),
            "result": lambda: app.enqueue_with_options("short", "Stated", ENDS_WELL, EnqueueOptions(retain=60)),
            "expires": lambda: app.enqueue_with_options("short", "Stated", ENDS_WELL, EXPIRING),
            "iterate": lambda: steps.set(track=True).enqueue(3, 0.0),
        }
        return {feature: str(push()) for feature, push in pushes.items() if but in ("", feature)}


def test_jobs_with_what_is_new_wait_for_a_worker_that_knows_it(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet, server.client() as client, own_app(server.url) as app:
        jids = push_all_that_is_new(server.url)
        older = fleet.start(former)
        assert eventually(lambda: client.zcard("schedule") == len(jids), PROGRESS_S), older.log.read_text()
        for feature in jids:
            with pytest.raises(workers.ArgumentError, match=f"the job needs {feature} .*queue short are older"):
                push_all_that_is_new(server.url, feature)
        older.stop()
        newer = fleet.start(today)
        ended = {"kwargs": "completed", "result": "completed", "expires": "expired", "iterate": "completed"}
        states = dict[str, str]()

        def all_have_ended() -> bool:
            states.update({feature: app.status(jid).state for feature, jid in jids.items()})
            return states == ended

        assert eventually(all_have_ended, PROGRESS_S), (states, newer.log.read_text())
        assert app.result(jids["result"]).startswith(jids["result"])
    lives = {run.life for run in [*read_runs(tmp_path), *read_stated_runs(tmp_path)]}
    assert lives == {newer.life.number}


def test_commands_reach_both_releases_and_the_newer_one_answers(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet, own_app(server.url) as app:
        older, newer = fleet.start(former), fleet.start(today)
        assert eventually(lambda: len(app.inspector.processes()) == 2, PROGRESS_S), older.log.read_text()
        told = app.inspector.call("log-level", "debug", timeout_s=20)
        assert [f":{newer.life.pid}:" in one.identity for one in told.answers] == [True], told
        assert told.ok
        quiet = pyworkers("processes", "quiet", "--all", "--yes", PYWORKERS_BROKER=server.url)
        assert (quiet.returncode, quiet.stdout.count("asked; this program does not answer")) == (0, 1), quiet.stderr
        assert eventually(lambda: all(one.quiet for one in app.inspector.processes()), PROGRESS_S)
        resumed = pyworkers("processes", "resume", "--all", PYWORKERS_BROKER=server.url)
        assert resumed.returncode == 1
        assert "does not know resume" in resumed.stderr
        assert eventually(lambda: [one.quiet for one in app.inspector.processes()].count(False) == 1, PROGRESS_S)
        newer.stop()
        older.stop()


def test_a_former_worker_runs_tracked_jobs_and_meets_no_cancel(
    former: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet, own_app(server.url) as app:
        older = fleet.start(former)
        jid = str(app.enqueue_with_options("short", "Stated", [10.0, 0, False], TRACKED))
        assert eventually(lambda: bool(read_stated_runs(tmp_path)), PROGRESS_S), older.log.read_text()
        assert app.cancel(jid, timeout=0.2) == "requested"
        status = app.status(jid)
        # The former worker writes no record. What runs there is known from its next heartbeat on.
        assert (status.state in ("waiting", "running"), status.verified) == (True, True)
        assert eventually(lambda: [run.how for run in read_stated_runs(tmp_path)] == ["ended"], PROGRESS_S)
        assert eventually(lambda: app.status(jid).absent, PROGRESS_S)
        assert (app.status(jid).state, app.status(jid).verified) == ("waiting", False)
        assert app.inspector.ended("completed").jobs == [], "the former worker lists nothing either"
        assert app.cancel(jid, timeout=0.2) == "not found"
        again = EnqueueOptions(track=True, jid=jid)
        assert app.enqueue_with_options("short", "Stated", ENDS_WELL, again) == jid, "it is nowhere, so no duplicate"


@pytest.mark.timeout(300)
def test_a_cancel_that_a_former_worker_does_not_know_is_met_by_a_newer_one(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet, own_app(server.url) as app:
        jid = str(app.enqueue_with_options("short", "Task", [5.0, 1], TRACKED))
        older = fleet.start(former)
        assert eventually(lambda: read_runs(tmp_path), PROGRESS_S), older.log.read_text()
        assert app.cancel(jid, timeout=0.1) == "requested"
        older.await_runs(1)
        older.stop()  # the job fails, and waits for its retry
        newer = fleet.start(today)
        assert eventually(lambda: app.status(jid).state == "cancelled", PROGRESS_S), newer.log.read_text()
        assert [one.jid for one in app.inspector.ended("cancelled").jobs] == [jid]
        assert [run.life for run in read_runs(tmp_path)] == [older.life.number]


@pytest.mark.timeout(300)
def test_jobs_of_all_that_is_new_outlive_a_way_back(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet:
        one, two = fleet.start(today), fleet.start(former)
        fleet.produce(former)
        for node in (one, two):
            node.await_runs(1)
        fleet.produce_shaped(SEED)
        one = fleet.replace(one, today, "kill")
        fleet.push_for_ruby(10)
        two = fleet.replace(two, former, "kill")
        one.await_runs(25)
        fleet.stop_parties()
        one = fleet.replace(one, former, "kill")  # its jobs, locks, places, groups and batches are left
        fleet.push_for_ruby(10)
        one.await_runs(20)
        for node in (one, two):
            fleet.replace(node, today, "kill")
        fleet.make_all_due()
        result = fleet.account()
    print(result)
    assert result.fine
    assert {kind for kind, count in result.shapes.count.items() if count} >= KINDS


def test_what_a_former_worker_has_buried_goes_on_when_it_is_retried(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet, server.client() as client, own_app(server.url) as app:
        one, part, callback = (
            app.job(name, queue="mixed", unique_for=600)(print) for name in ("One", "Part", "Callback")
        )
        one.enqueue("key", 0.0)
        with app.batch("batch", on_success=callback.set(unique_for=False).s("batch", "success")):
            part.set(unique_for=False).enqueue("batch", 0, False)
        for raw in client.lrange("queue:mixed", 0, -1):  # they have waited for a day
            client.lpush("queue:mixed", raw.replace(b'"needs":', b'"rounds":32,"needs":'))
            client.lrem("queue:mixed", 1, raw)
        older = fleet.start(former)
        assert eventually(lambda: client.zcard("dead") == 2, PROGRESS_S), older.log.read_text()
        older.stop()
        newer = fleet.start(today)
        list(app.inspector.retry(DEAD, Filter()))
        runs = "one", "part", "callback"
        assert eventually(lambda: {run.kind for run in read_shaped_runs(tmp_path)} >= {*runs}, PROGRESS_S), (
            newer.log.read_text()
        )
        assert eventually(lambda: not client.keys("pyworkers:lock:*"), PROGRESS_S)
        assert [batch.state for batch in app.batches.all()] == ["ended"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fleet_that_is_mixed_for_long_loses_nothing_and_tells_true_states(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    with MixedFleet(server, tmp_path) as fleet:
        nodes = [fleet.start(release) for release in (former, today, former)]
        fleet.produce(former)
        fleet.produce(today)
        fleet.produce_stated(SEED)
        fleet.produce_shaped(SEED)
        for node in nodes:
            node.await_runs(1)  # until then TERM ends it at once, as any program
        for _ in range(30):
            fleet.push_for_ruby(5)
            place = dice.randrange(len(nodes))
            nodes[place] = fleet.replace(nodes[place], dice.choice([former, today]), dice.choice(["kill", "stop"]))
        for node in nodes:
            fleet.replace(node, today, "stop")
        fleet.make_all_due()
        result = fleet.account()
    print(result)
    assert result.fine
    assert result.repeated
    assert {"completed", "cancelled", "expired", "dead"} <= result.states.states.keys()
    assert {kind for kind, count in result.shapes.count.items() if count} >= KINDS
