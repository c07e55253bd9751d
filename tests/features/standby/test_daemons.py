"""Real processes with `standby`: kills, pauses, cut-offs and farewells of the leader. A judge reads what Redis does."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from daemon import pyworkers
from servers import RedisServer, free_port
from standby_scene import Scene, scene, through
from waiting import eventually

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]

# A leader on a busy machine keeps a lease only if it lasts longer than the pauses of the machine.
LEASE_S = 5.0  # where a test awaits its end
LONG_LEASE_S = 60.0  # where the leader is to hand over without that


@pytest.fixture
def stage(tmp_path: Path, own_redis: RedisServer) -> Iterator[Scene]:
    with scene(tmp_path, own_redis, LEASE_S) as made:
        yield made


@pytest.fixture
def lasting(tmp_path: Path, own_redis: RedisServer) -> Iterator[Scene]:
    with scene(tmp_path, own_redis, LONG_LEASE_S) as made:
        yield made


def test_one_works_and_the_other_takes_over_when_it_is_killed(stage: Scene) -> None:
    first = stage.leading()
    stage.start()
    stage.push("long", 60)
    stage.await_run("long", 1)
    assert eventually(lambda: "standby of " in pyworkers("processes", "--redis", stage.server.url).stdout)
    killed_at = time.time()
    first.kill()
    won = stage.await_epoch(2)
    assert won.at - killed_at < stage.lease_s + 10
    stage.await_run("long", 2)  # at once: the win has declared the old leader dead


def test_of_three_one_works_and_after_a_kill_one_of_the_others(stage: Scene) -> None:
    stage.leading()
    for _ in range(2):
        stage.start()
    for epoch in (2, 3):
        stage.leader.kill()
        stage.await_epoch(epoch)
        stage.push(f"job {epoch}")
        stage.await_run(f"job {epoch}", epoch)
    assert [win.epoch for win in stage.judge.wins] == [1, 2, 3]
    # Each has one look in the last third of a lease, and on a busy machine it may come too late for the warning.
    assert "is silent since" in stage.log


def test_a_leader_that_was_paused_beyond_its_lease_writes_nothing_and_stands_by(stage: Scene) -> None:
    first, _ = stage.leading(), stage.start()
    for number in range(30):
        stage.push(f"job {number}", 0.02, 1)
    stage.await_run("job 3", 1)
    first.signal(signal.SIGSTOP)
    stage.await_epoch(2)
    before = stage.judge.writes[1]
    first.signal(signal.SIGCONT)
    first.says("leader no more")
    for number in range(30):
        assert eventually(lambda name=f"job {number}": stage.ran(name)), stage.log  # type: ignore[misc]
    assert stage.judge.writes[1] == before
    stage.leader.kill()  # the fallen leader is a standby, and leads again
    stage.push("last")
    stage.await_run("last", 3)


def test_a_leader_that_is_cut_off_stops_by_its_own_clock_and_stands_by_when_it_is_back(stage: Scene) -> None:
    with through(stage.server) as proxy:
        cut_off = stage.start(url=proxy.url)
        cut_off.says("leads now")
        stage.start()
        stage.push("long", 60)
        stage.await_run("long", 1)
        proxy.swallow()
        stage.await_run("long", 2)
        cut_off.says("interrupted: the lease of this process has expired")
        proxy.pass_through()
        cut_off.says("serves again")
        stage.leader.kill()
        stage.await_run("long", 3)


def test_a_farewell_hands_over_at_once_and_leaves_nothing(lasting: Scene) -> None:
    first, _ = lasting.leading(), lasting.start()
    lasting.push("one")
    lasting.await_run("one", 1)
    first.signal(signal.SIGTERM)
    won = lasting.await_epoch(2)
    assert won.at - lasting.judge.farewells[-1] < 10, "before the next regular look, and the end of the lease"
    assert first.wait() == 0
    assert "recovered" not in lasting.log
    lasting.push("two")
    lasting.await_run("two", 2)


def test_a_leader_that_was_asked_steps_down_when_its_jobs_have_ended(lasting: Scene) -> None:
    first = lasting.leading()
    second = lasting.start()
    lasting.push("long", 1)
    lasting.await_run("long", 1)
    asked = pyworkers("leader", "step-down", "--redis", lasting.server.url)
    assert "asked to step down" in asked.stdout, asked.stderr
    second.says("leads now")
    assert lasting.ran("long") == [1]
    assert '"epoch": 2' in pyworkers("leader", "show", "--json", "--redis", lasting.server.url).stdout
    first.says("has resigned")


def test_who_steps_down_alone_leads_again(lasting: Scene) -> None:
    first = lasting.leading()
    pyworkers("leader", "step-down", "--redis", lasting.server.url)
    first.says("epoch=2")


def test_a_process_that_prefers_to_lead_asks_the_leader_and_two_of_them_do_not_fight(stage: Scene) -> None:
    stage.leading()
    preferred = stage.start("--prefer-leader", "yes")
    assert eventually(lambda: "leads now" in preferred.output, 40), stage.log  # it asks after two leases
    stage.start("--prefer-leader", "yes")
    time.sleep(3 * stage.lease_s)  # the next one would ask after two
    assert [win.epoch for win in stage.judge.wins] == [1, 2]


def test_a_quiet_leader_hands_over_and_leads_no_more(stage: Scene) -> None:
    first, second = stage.leading(), stage.start()
    first.signal(signal.SIGTSTP)
    second.says("leads now")
    second.kill()
    time.sleep(2 * stage.lease_s)
    assert stage.epoch == 2


def test_a_standby_is_ready_and_its_page_and_its_metrics_say_so(lasting: Scene) -> None:
    port = free_port()
    lasting.leading()
    lasting.start("--stats-port", str(port))

    def ready() -> bytes:
        try:
            with urlopen(f"http://127.0.0.1:{port}/ready", timeout=20) as answer:
                return bytes(answer.read())
        except HTTPError as error:  # not ready yet
            with error:
                return bytes(error.read())

    assert eventually(lambda: b"standby of " in ready()), ready()
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        told = answer.read().decode()
    assert 'pyworkers_leader{partition="main"} 0' in told
    assert 'pyworkers_leader_epoch{partition="main"} 1' in told


PARTITIONS = """
[queue:q]
concurrency = 1
[partition:billing]
queues = invoices 1
standby = yes
leader_lease = 5
"""


def test_each_partition_with_standby_has_a_leader_of_its_own(stage: Scene, tmp_path: Path) -> None:
    """The queues of [pyworkers] are worked by both processes all the while."""
    conf = tmp_path / "conf.ini"
    conf.write_text(PARTITIONS)
    first, second = (stage.plain("-c", str(conf)) for _ in range(2))
    for daemon in first, second:
        daemon.ready()
    assert eventually(lambda: stage.redis.exists("pyworkers:leader:billing"))
    # The lease is there before its leader has logged it.
    assert eventually(lambda: "leads now" in first.output + second.output), stage.log
    leader, other = (first, second) if "leads now" in first.output else (second, first)
    leader.says("leads now")
    shown = pyworkers("leader", "show", "--json", "--redis", stage.server.url, "-c", str(conf)).stdout
    assert '"election": "billing"' in shown
    assert "main" not in shown
    stage.push("one", queue="invoices")
    stage.await_run("one", 1)
    stage.push("two")
    assert eventually(lambda: b"two None" in stage.redis.lrange("ledger", 0, -1))
    leader.kill()
    stage.push("three", queue="invoices")
    stage.await_run("three", 2)
    assert other.stop() == 0
    # The main partition has no leader, and no fence.
    stage.judge.faults[:] = [one for one in stage.judge.faults if not one.startswith("outside")]
