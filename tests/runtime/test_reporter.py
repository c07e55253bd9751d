"""A process reports to the broker and the fleet, and obeys the commands in the answer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from apps import begun, job, shared

from goworkers_py.config.options import Config
from goworkers_py.core.command import Command, Obey
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.proc import CpuMeter
from goworkers_py.features.standby.follower_report import FollowerReport
from goworkers_py.observe.executions import ByQueue
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.runtime.alive.reporter import Reporter
from goworkers_py.wire.process_record import ProcessMember, ProcessSnapshot


class Fleet:
    """A control that asks for what the test wants."""

    def __init__(self, *asks: Command) -> None:
        self.asks = list(asks)
        self.reports: list[tuple[str, ProcessMember, ProcessSnapshot]] = []
        self.records: list[ByQueue] = []
        self.left = False

    def report(self, identity: str, member: ProcessMember, now: ProcessSnapshot) -> list[Command]:
        self.reports.append((identity, member, now))
        return self.asks

    def record(self, total: ByQueue, at: float) -> None:
        self.records.append(total)

    def leave(self) -> None:
        self.left = True


class Reporting:
    def __init__(self, fleet: Fleet, obey: Obey | None, trouble: str = "", **options: str) -> None:
        self.shared, self.delivery = shared(), begun(Delivery(job(), "a", "me"), 5.0)
        most = {"a": 12, "b": 13, "c": 14}
        managers = [
            SimpleNamespace(name=name, concurrency=2, queues=queues, weights=weights, begun_at_most=most.__getitem__)
            for name, queues, weights in (("a", ["a"], ()), ("web", ["b", "c"], (6, 3)))
        ]
        lanes = [SimpleNamespace(queue=queue, run_stats=RunStats()) for queue in most]
        health = SimpleNamespace(
            managers=managers, lanes=lanes, running={"worker:a:1": self.delivery}, trouble=lambda: trouble
        )
        self.reporter = Reporter(fleet, Config(**options), health, self.shared, obey)  # type: ignore[arg-type]


def test_a_beat_tells_who_it_is_what_may_have_begun_and_what_is_wrong() -> None:
    reporter = Reporting(Fleet(), None, trouble="quiet", process="one").reporter
    told = reporter.presence("me:1:a", "a suspect")
    assert (told.identity, told.process, told.alone, told.trouble) == ("me:1:a", "one", "a suspect", "quiet")
    assert told.queues == {"a": 12, "b": 13, "c": 14}


def test_the_fleet_is_shown_this_process_and_its_executions() -> None:
    fleet = Fleet()
    at = Reporting(fleet, lambda command, who: None, tag="blue")
    at.shared.state.quiet = True
    at.reporter.report(0.25)
    [(identity, member, now)] = fleet.reports
    assert identity == at.shared.lease.identity
    assert (member.queues, member.concurrency, member.tag) == (["a", "b", "c"], 4, "blue")
    assert [dict(pool.weights) for pool in member.pools] == [{"a": 0}, {"b": 6, "c": 3}]
    assert now.running == {"worker:a:1": at.delivery}
    assert (now.quiet, now.round_trip_s, now.embedded) == (True, 0.25, False)
    assert now.rss > 1_000_000
    assert fleet.records == [{"a": {}, "b": {}, "c": {}}]


def test_each_report_tells_the_cpu_that_was_used_since_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, told = Fleet(), {"clock": 100.0, "used": 7.0}
    meter = CpuMeter(lambda: told["clock"], lambda: told["used"])
    monkeypatch.setattr("goworkers_py.runtime.alive.reporter.CpuMeter", lambda: meter)
    reporter = Reporting(fleet, None).reporter
    for clock, used in ((100.1, 7.05), (105.0, 7.5), (105.5, 8.0), (110.0, 17.5), (115.0, 17.5)):
        told.update(clock=clock, used=used)
        reporter.report(0.0)
    assert [now.cpu_share for _, _, now in fleet.reports] == pytest.approx([None, 0.1, 0.1, 2.0, 0.0])


def test_a_process_that_stands_by_tells_its_cpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, told = Fleet(), iter((0.0, 10.0))
    meter = CpuMeter(lambda: next(told), iter((1.0, 2.0)).__next__)
    monkeypatch.setattr("goworkers_py.features.standby.follower_report.CpuMeter", lambda: meter)
    plan = SimpleNamespace(pools=[], config=Config())
    FollowerReport(fleet, plan, None).show("me:1:a", "standby of another", quiet=False)  # type: ignore[arg-type]
    [(_, _, now)] = fleet.reports
    assert (now.standby, now.cpu_share) == ("standby of another", 0.1)


def test_what_the_fleet_asks_for_is_handed_on_in_its_order() -> None:
    asked: list[tuple[Command, str]] = []
    fleet = Fleet(Command.QUIET, Command.DUMP, Command.STOP)
    Reporting(fleet, lambda command, who: asked.append((command, who))).reporter.report(0.0)
    assert asked == [(command, "the fleet") for command in (Command.QUIET, Command.DUMP, Command.STOP)]


def test_nobody_stops_a_part_of_another_program() -> None:
    fleet = Fleet(Command.STOP)
    Reporting(fleet, None).reporter.report(0.0)
    assert fleet.reports[0][2].embedded


def test_leaving_is_passed_on_to_control() -> None:
    fleet = Fleet()
    Reporting(fleet, None).reporter.leave()
    assert fleet.left
