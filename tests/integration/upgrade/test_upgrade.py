"""A fleet is upgraded and rolled back under kills: no job is lost, and every second run is explained."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from apps import own_app
from chaos.notes import read_stated_runs
from chaos.shape_judge import read_shaped_runs
from chaos.shaped_jobs import GATHERED
from servers import RedisServer
from waiting import eventually

from goworkers_py import App, EnqueueOptions
from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import DEAD
from goworkers_py.core.release_order import release_order
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group
from goworkers_py.features.groups.payload import field_of_set
from goworkers_py.policy.known_needs import SINCE
from goworkers_py.policy.needs import MOST_ROUNDS
from upgrade import releases
from upgrade.delayer import LATE, TASKS
from upgrade.fleet import EXIT_S, PROGRESS_S, MixedFleet
from upgrade.releases import Release

pytestmark = pytest.mark.timeout(180)  # a fleet may take a minute for each step

SEED = 7
KINDS = {"one", "two", "lined", "tick", "gathered", "batch", "chain", "echo"}
TRACKED = EnqueueOptions(track=True)


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


def test_each_feature_is_listed_with_the_first_release_that_knows_it(former: Release, today: Release) -> None:
    newer = {need for need, since in SINCE.items() if release_order(since) > release_order(former.version)}
    assert former.speaks == today.speaks - newer


@pytest.mark.timeout(300)
def test_a_fleet_is_upgraded_and_rolled_back_and_nothing_is_lost(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet:
        one, two = fleet.start(former), fleet.start(today)
        fleet.produce(former)
        fleet.produce(today)
        for node in (one, two):
            node.await_runs(1)
        fleet.produce_shaped(SEED)
        fleet.produce_stated(SEED)
        fleet.push_for_ruby(5)
        two = fleet.replace(two, former, "kill")  # the jobs, locks, places, groups and batches of today's are left
        fleet.push_for_ruby(5)
        one = fleet.replace(one, today, "stop")
        fleet.push_for_ruby(5)
        fleet.replace(two, today, "kill")
        result = fleet.account()
    print(result)
    assert result.fine
    assert result.pushed > 50
    assert {kind for kind, count in result.shapes.count.items() if count} >= KINDS


def aggregated_before(app: App, name: str, rounds: int) -> str:
    """Leaves what a process of today leaves that was killed while it ended the members of a large group: members in an
    ended set, and the job that is to end them. Returns the jid of the one member."""
    member = app.job("Gathered", queue="mixed", group_grace=0.001, track=True)(gathered)
    jid = str(member.set(group=name).enqueue([1]))
    group = Group("mixed", "Gathered", name)
    ended = group._replace(set=f"{name}-ended")
    field = {**field_of_set(ended, is_ended=True), "rounds": rounds}
    job = {"class": "Gathered", "args": [name], "jid": f"ends {name}", "queue": "mixed", "retry": True}
    aggregates = json.dumps({**job, "pyworkers": field}).encode()
    assert eventually(lambda: app.broker.require_part(Groups).flush(group, ended, aggregates) == 1)
    return jid


def gathered(numbers: list[int]) -> None:
    """Has the signature of the job in `chaos.shaped_jobs`, which runs."""


def test_the_end_of_a_large_group_waits_for_a_worker_that_knows_it(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet, server.client() as client, own_app(server.url) as app:
        jids = [aggregated_before(app, "group", 0), aggregated_before(app, "other", MOST_ROUNDS)]
        older = fleet.start(former)
        assert eventually(lambda: (client.zcard("schedule"), client.zcard("dead")) == (1, 1), PROGRESS_S), (
            older.log.read_text()
        )
        older.stop()
        assert "a job needs ended-set, which this release (0.4.0) does not know" in older.log.read_text()
        assert len(list(app.broker.require_part(Groups).entries())) == 2
        newer = fleet.start(today)
        assert len(list(app.inspector.retry(DEAD, Filter()))) == 1
        assert eventually(lambda: {app.status(jid).state for jid in jids} == {"completed"}, PROGRESS_S), (
            newer.log.read_text()
        )
        assert eventually(lambda: not list(app.broker.require_part(Groups).entries()), PROGRESS_S)
    assert [run for run in read_shaped_runs(tmp_path) if run.kind == GATHERED] == [], "they were aggregated before"


def test_commands_and_cancels_of_each_release_reach_both(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    with MixedFleet(server, tmp_path) as fleet, own_app(server.url) as app:

        def running() -> list[str]:
            jids = [str(app.enqueue_with_options("short", "Stated", [60.0, 0, False], TRACKED)) for _ in range(2)]
            assert eventually(lambda: [app.status(jid).state for jid in jids] == ["running"] * 2, PROGRESS_S)
            return jids

        older = fleet.start(former)
        by_older = running()
        assert app.inspector.call("quiet", timeout_s=20).ok
        newer = fleet.start(today)
        by_newer = running()
        lives = [run.life for run in read_stated_runs(tmp_path)]
        assert lives == [older.life.number] * 2 + [newer.life.number] * 2
        told = app.inspector.call("resume", timeout_s=20)
        assert (told.ok, len(told.answers)) == (True, 2), told
        leveled = fleet.command(former, "processes", "log-level", "error", "--all")
        assert (leveled.returncode, leveled.stdout.count(": error\n")) == (0, 2), leveled
        cancelled = fleet.command(former, "job", "cancel", "--wait", "20", by_older[0], by_newer[0])
        assert (cancelled.returncode, cancelled.stdout.count(" cancelled\n")) == (0, 2), cancelled
        assert [app.cancel(jid, timeout=20) for jid in (by_older[1], by_newer[1])] == ["cancelled"] * 2
        assert {app.status(jid).state for jid in by_older + by_newer} == {"cancelled"}
        older.stop()
        newer.stop()


def test_a_delay_queue_is_shared_by_programs_of_both_releases_under_kills(
    former: Release, today: Release, server: RedisServer, tmp_path: Path
) -> None:
    def ran() -> list[list[str]]:
        """For each run of a task: the program that ran it, the name of the task, the seconds after its time."""
        notes = tmp_path / "tasks"
        return [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []

    def begun(release: Release, name: str) -> subprocess.Popen[bytes]:
        program = [sys.executable, str(releases.FOLDER / "upgrade" / "delayer.py"), str(tmp_path), server.url, name]
        process = stack.enter_context(subprocess.Popen(program, env=release.environment()))
        stack.callback(process.kill)
        assert eventually(lambda: [run[0] for run in ran()].count(name) >= 3, PROGRESS_S)
        return process

    def end(process: subprocess.Popen[bytes], name: str) -> None:
        """Kills it when it has pushed tasks that are not due yet."""
        (tmp_path / f"more-{name}").touch()
        assert eventually(lambda: (tmp_path / f"pushed-{name}").exists(), PROGRESS_S)
        process.kill()

    with ExitStack() as stack:
        older, newer = begun(former, "older"), begun(today, "newer")
        end(older, "older")
        last = begun(former, "last")
        end(newer, "newer")
        pushed = {f"{name}-{one}" for name in ("older", "newer") for one in (*range(TASKS + LATE), "moved")}
        assert eventually(lambda: {run[1] for run in ran()} >= pushed, PROGRESS_S), pushed - {run[1] for run in ran()}
        (tmp_path / "enough").touch()
        assert last.wait(EXIT_S) == 0
    # 0.4.0 guesses the server's clock, and may be some milliseconds early.
    assert [run for run in ran() if run[0] == "newer" and run[1].startswith("newer-") and float(run[2]) < 0] == []
    assert [run for run in ran() if run[1].endswith("-cancelled")] == []


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
        result = fleet.account()
    print(result)
    assert result.fine
    assert result.repeated
    assert {"completed", "cancelled", "expired", "dead"} <= result.states.states.keys()
    assert {kind for kind, count in result.shapes.count.items() if count} >= KINDS
