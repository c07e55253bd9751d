"""A process reports itself to the fleet, and gets the commands that were sent to it."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest
from harness import Process, Processes, job

from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.contracts.fleet import Counts, ThreadPool
from goworkers_py.core.command import Command
from goworkers_py.core.outcome import Dead, Done
from goworkers_py.observe.executions import BOUNDS_S, Executions
from goworkers_py.wire.process_record import VERSION, MemberPool, ProcessMember, ProcessSnapshot

COMMAND_LIVES_S = 60.0
POOLS = [MemberPool("mail", 5, {"mail": 0}), MemberPool("low", 2, {"low": 0})]
MEMBER = ProcessMember(1_700_000_000.5, POOLS, "web", partition="billing")

pytestmark = pytest.mark.usefixtures("control")


def report(process: Process, **changes: Any) -> list[Command]:
    now = {"running": {}, "quiet": False, "rss": 2**20, "round_trip_s": 0.001, "at": time.time(), "embedded": False}
    return process.broker.control.report(process.identity, MEMBER, ProcessSnapshot(**{**now, **changes}))


def identities(admin: Admin) -> list[str]:
    return [process.identity for process in admin.processes()]


def test_a_process_is_shown_as_it_reports_itself(me: Process, admin: Admin) -> None:
    assert admin.processes() == []
    report(me, quiet=True, rss=3 * 2**20, embedded=True, at=1_700_000_100.0, cpu_share=1.25)
    [process] = admin.processes()
    assert (process.identity, process.version, process.tag) == (me.identity, VERSION, "web")
    assert process.partition == "billing"
    assert (process.queues, process.concurrency) == (["mail", "low"], 7)
    assert [*process.pools] == [ThreadPool(("mail",), 5), ThreadPool(("low",), 2)]
    assert (process.busy, process.quiet, process.embedded, process.rss_kb) == (0, True, True, 3 * 1024)
    assert process.cpu_share == 1.25
    assert (process.started_at, process.beat) == (1_700_000_000.5, 1_700_000_100.0)


def test_a_later_report_replaces_the_earlier_one(me: Process, admin: Admin) -> None:
    report(me, quiet=False, cpu_share=0.5)
    report(me, quiet=True)
    assert [(process.quiet, process.cpu_share) for process in admin.processes()] == [(True, None)]


def test_running_jobs_are_shown_the_longest_running_first(me: Process, other: Process, admin: Admin) -> None:
    me.publish(job(1), job(2), job(3))
    first, second, third = me.consume(2) + other.consume(1)
    first.begun_at, second.begun_at, third.begun_at = 1_700_000_300.0, 1_700_000_100.0, 1_700_000_200.0
    report(me, running={"worker:q:1": first, "worker:q:2": second})
    report(other, running={"worker:q:1": third})
    assert sorted(process.busy for process in admin.processes()) == [1, 2]
    assert [(one.identity, one.queue, one.job.payload, one.since) for one in admin.running()] == [
        (me.identity, "q", job(2), 1_700_000_100.0),
        (other.identity, "q", job(3), 1_700_000_200.0),
        (me.identity, "q", job(1), 1_700_000_300.0),
    ]
    report(me)
    assert [one.job.payload for one in admin.running()] == [job(3)]


def test_a_job_in_progress_has_the_time_since_when_it_runs(me: Process, admin: Admin) -> None:
    me.publish(job(1), job(2))
    first, _ = me.consume(2)
    first.begun_at = 1_700_000_300.0
    report(me, running={"worker:q:1": first})
    assert {one.job.payload: one.running_since for one in admin.in_progress()} == {
        job(1): 1_700_000_300.0, job(2): None,
    }  # fmt: skip


def test_every_process_gets_its_own_commands_once_and_in_order(me: Process, other: Process, admin: Admin) -> None:
    assert report(me) == report(other) == []
    admin.ask([me.identity], Command.QUIET)
    other.broker.admin.ask([me.identity, other.identity], Command.DUMP)
    admin.ask([me.identity], Command.STOP)
    assert report(me) == [Command.QUIET, Command.DUMP, Command.STOP]
    assert report(other) == [Command.DUMP]
    assert report(me) == report(other) == []


def test_a_command_for_an_unknown_process_is_no_error(me: Process, admin: Admin) -> None:
    admin.ask(["host:99:00000000ffff"], Command.STOP)
    assert report(me) == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_command_that_is_older_than_a_minute_is_dropped(me: Process, admin: Admin) -> None:
    report(me)
    admin.ask([me.identity], Command.STOP)
    time.sleep(COMMAND_LIVES_S + 1)
    me.begin()
    assert report(me) == []
    admin.ask([me.identity], Command.DUMP)
    assert report(me) == [Command.DUMP]


def test_a_process_that_has_left_is_not_shown(me: Process, other: Process, admin: Admin) -> None:
    report(me)
    report(other)
    other.broker.control.leave()
    assert identities(admin) == [me.identity]


def test_a_process_that_was_never_shown_may_leave(me: Process, admin: Admin) -> None:
    me.broker.control.leave()
    assert identities(admin) == []


def test_a_process_that_goes_on_under_a_new_identity_is_shown_once(me: Process, admin: Admin) -> None:
    report(me)
    me.identity = "host:77:00000000abcd"
    me.beat()
    report(me)
    assert identities(admin) == [me.identity]


def test_dead_processes_are_not_shown(start: Processes, me: Process, other: Process, admin: Admin) -> None:
    report(me)
    report(other)
    start.expire(other)
    me.recover(proof="")
    assert identities(admin) == [me.identity]
    assert admin.running() == []


def test_executions_are_recorded_again_and_again(me: Process) -> None:
    histogram = (1,) * (len(BOUNDS_S) + 1)
    for runs in (1, 1, 2):
        me.broker.control.record({"q": {"Job": Executions(runs, 0, 5, histogram)}}, time.time())


# --- the history


def executed(runs: int, failures: int) -> Executions:
    return Executions(runs, failures, 5, (0,) * (len(BOUNDS_S) + 1))


def test_the_history_tells_the_jobs_of_each_day_today_first(me: Process, admin: Admin) -> None:
    me.publish(*(job(number) for number in range(5)))
    done, failed, *_ = me.consume(5)
    me.settle((done, Done()), (failed, Dead(failed.payload)))
    today, yesterday = admin.history(2)
    now = datetime.datetime.fromtimestamp(admin.now(), datetime.timezone.utc).date()
    assert (today.date, yesterday.date) == (now.isoformat(), (now - datetime.timedelta(days=1)).isoformat())
    assert (today.processed, today.failed, yesterday.processed) == (2, 1, 0)


def test_the_history_tells_the_jobs_of_each_queue(me: Process, other: Process, admin: Admin) -> None:
    now, day_s = admin.now(), 86_400
    me.broker.control.record({"q": {"A": executed(5, 1), "B": executed(2, 2)}, "a|b:c": {"A": executed(1, 0)}}, now)
    me.broker.control.record({"q": {"A": executed(9, 1), "B": executed(2, 2)}, "a|b:c": {"A": executed(1, 0)}}, now)
    other.broker.control.record({"q": {"A": executed(10, 0)}, "idle": {}}, now - day_s)
    today, yesterday, before = admin.history(3)
    assert today.queues == {"a|b:c": Counts(1, 0), "q": Counts(11, 3)}
    assert (yesterday.queues, before.queues) == ({"q": Counts(10, 0)}, {})
