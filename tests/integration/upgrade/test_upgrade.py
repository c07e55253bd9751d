"""A fleet is upgraded and rolled back under kills: no job is lost, and every second run is explained."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from apps import own_app
from servers import RedisServer
from waiting import eventually

import goworkers_py as workers
from upgrade import releases
from upgrade.fleet import PROGRESS_S, MixedFleet
from upgrade.releases import Release

SEED = 7


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


def test_a_job_with_keyword_arguments_waits_for_a_worker_that_knows_them(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    def push() -> None:
        with own_app(server.url) as app:  # a new one does not remember which processes there were
            app.enqueue_with_options("short", "Task", [0.0], workers.EnqueueOptions(), {"failures": 0})

    with MixedFleet(server, tmp_path) as fleet, server.client() as client:
        push()
        older = fleet.start(former)
        assert eventually(lambda: client.zcard("schedule") == 1, PROGRESS_S), older.log.read_text()
        with pytest.raises(workers.ArgumentError, match="no live process of queue short knows kwargs"):
            push()
        older.stop()
        fleet.start(today).await_runs(1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fleet_that_is_mixed_for_long_loses_nothing(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    with MixedFleet(server, tmp_path) as fleet:
        nodes = [fleet.start(release) for release in (former, today, former)]
        fleet.produce(former)
        fleet.produce(today)
        for node in nodes:
            node.await_runs(1)  # until then TERM ends it at once, as any program
        for _ in range(30):
            place = dice.randrange(len(nodes))
            nodes[place] = fleet.replace(nodes[place], dice.choice([former, today]), dice.choice(["kill", "stop"]))
        result = fleet.account()
    print(result)
    assert result.fine
    assert result.repeated
