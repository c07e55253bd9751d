"""The broker of examples/dir-broker, which a package of its own adds, in real daemons that are killed."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import dir_crash_points
import pytest
from broker_site import BrokerSite
from crash_points import lives
from daemon import pyworkers
from dir_broker import DirBroker, sortable
from waiting import eventually

from goworkers_py.brokers.contracts.transport import Published
from goworkers_py.config.options import Config
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, ConfigError


class Site(BrokerSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, f"dir://{folder / 'jobs'}")

    def files(self, place: str) -> list[str]:
        return [path.name for path in (self.folder / "jobs").glob(f"{place}/**/*") if path.is_file()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_jobs_are_pushed_run_retried_and_buried_by_a_daemon_that_finds_the_broker_by_its_address(site: Site) -> None:
    for name, fails in (("good", 0), ("retried", 1), ("dead", 0)):
        site.push("note", name, fails)
    with site.daemon() as daemon:
        assert eventually(lambda: sorted(site.ran) == ["dead", "good", "retried", "retried"])
        assert eventually(lambda: len(site.files("dead")) == 1)
        assert eventually(lambda: not site.files("progress"))
        assert daemon.stop() == 0
    assert (site.files("queues"), site.files("later"), site.files("progress")) == ([], [], [])


def test_a_stop_puts_the_jobs_that_do_not_end_in_time_back(site: Site) -> None:
    for name in ("1", "2", "3"):
        site.push("wait", name)
    with site.daemon("--timeout", "1") as daemon:
        assert eventually(lambda: len(site.ran) == 2)
        assert daemon.stop() == 0
    assert (len(site.files("queues")), site.files("progress")) == (3, [])


def test_the_jobs_of_a_killed_process_run_in_another_one_at_once(site: Site) -> None:
    with site.daemon() as first:
        site.push("wait", "end")
        assert eventually(lambda: site.ran == ["end"])
        with site.daemon() as second:
            first.kill()
            assert eventually(lambda: site.ran == ["end", "end"])
            (site.folder / "end").touch()
            assert eventually(lambda: not site.files("progress"))
            assert second.stop() == 0
    assert site.files("queues") == []


def test_a_job_that_was_running_when_three_processes_died_is_buried(site: Site) -> None:
    site.push("wait", "never")
    for death in range(3):
        with site.daemon() as daemon:
            assert eventually(lambda death=death: len(site.ran) == death + 1)
            daemon.kill()
    with site.daemon() as daemon:
        daemon.says("buried: in progress when 3 processes died")
        assert len(site.files("dead")) == 1
        assert daemon.stop() == 0
    assert site.files("queues") == site.files("progress") == []


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("untraced")
def test_a_process_that_is_killed_at_any_line_has_done_each_step_whole_or_not_at_all(
    tmp_path: Path, stride: int
) -> None:
    steps = [step for step, _ in lives(dir_crash_points, tmp_path, stride)]
    for step in steps:
        with closing(dir_crash_points.broker_of(tmp_path, step)) as broker:
            [job] = broker.transport.consume("b:2:bb", [("q", 9)], 9, 0)
            children = broker.transport.consume("b:2:bb", [("children", 9)], 9, 0)
        assert len(children) == (dir_crash_points.CHILDREN if b"retry_count" in job.payload else 0), step
    assert len(steps) > 10


def test_a_push_with_an_id_is_a_duplicate_for_every_process(tmp_path: Path) -> None:
    pushed, duplicate = Published.PUSHED, Published.DUPLICATE
    one, other = (DirBroker.open(Config(broker=f"dir://{tmp_path}")).transport for _ in range(2))
    assert one.publish([Push("q", b"1", id="a"), Push("q", b"2", id="a"), Push("q", b"3")]) == [
        pushed,
        duplicate,
        pushed,
    ]
    assert other.publish([Push("p", b"4", id="a"), Push("q", b"5", id="b")]) == [duplicate, pushed]
    assert len(list((tmp_path / "queues").glob("*/*"))) == 3


def test_the_errors_of_the_system_and_of_addresses_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be dir:///PATH"):
        DirBroker.open(Config(broker="dir://here"))
    (tmp_path / "file").touch()
    transport = DirBroker.open(Config(broker=f"dir://{tmp_path}/file/jobs")).transport
    with pytest.raises(BrokerUnavailable, match="Not a directory"):
        transport.publish([Push("q", b"")])
    with pytest.raises(BrokerRefused, match="too long for a file"):
        DirBroker.open(Config(broker=f"dir://{tmp_path}")).transport.publish([Push("q" * 200, b"")])


def test_old_dead_jobs_and_answers_are_deleted(tmp_path: Path) -> None:
    broker = DirBroker.open(Config(broker=f"dir://{tmp_path}", dead_max_jobs=2))
    broker.transport.publish([Push("q", b"", id="1")])
    (tmp_path / "dead").mkdir()
    for number in range(4):
        (tmp_path / "dead" / f"{sortable(4e9 + number)} x").touch()
    [answer] = (tmp_path / "answers").iterdir()
    os.utime(answer, (1, 1))
    with closing(broker):
        broker.transport.consume("a:1:aa", [("q", 0)], 0, 0)
    assert len(list((tmp_path / "dead").iterdir())) == 2
    assert not list((tmp_path / "answers").iterdir())


def test_commands_that_need_lists_of_jobs_say_that_the_broker_has_none(site: Site) -> None:
    told = pyworkers("queues", "--broker", site.address)
    assert told.returncode == 2
    assert "the directory has no lists of jobs" in told.stderr
