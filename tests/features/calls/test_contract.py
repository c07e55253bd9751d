"""Calls: commands to processes, and their answers; reports."""

from __future__ import annotations

import dataclasses
import time

import pytest
from harness import Process, part_of
from waiting import eventually

from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.calls.call import Answer, Call, Target
from goworkers_py.features.calls.contract import Calls
from goworkers_py.wire.audit_record import written_entry


@pytest.fixture
def calls(me: Process) -> Calls:
    return part_of(me.broker, Calls)


def call(name: str = "flush", *arguments: object, life_s: float = 60.0, target: Target | None = None) -> Call:
    return Call(f"id-{name}", name, list(arguments), target or Target(), "root@host, pid 7", life_s)


def test_a_process_reads_the_calls_that_were_given_after_it_began_once_and_in_order(calls: Calls) -> None:
    assert calls.after(calls.end()) == (calls.end(), [])
    calls.give(call("before"))
    position = calls.end()
    given = [call("first", 1, {"a": [None, "ü"]}, target=Target(("me",), "web", "q", "billing")), call("second")]
    for one in given:
        calls.give(one)
    position, found = calls.after(position)
    assert [dataclasses.replace(one, life_s=60.0) for one in found] == given
    assert all(one.life_s <= 60.0 for one in found), "what is left"
    assert calls.after(position) == (position, [])


def test_a_process_that_began_before_the_first_call_reads_it(calls: Calls, other: Process) -> None:
    position = calls.end()
    other.broker.require_part(Calls).give(call())
    assert [one.name for one in calls.after(position)[1]] == ["flush"]


def test_a_call_that_nobody_read_in_its_time_is_left_out(calls: Calls) -> None:
    position = calls.end()
    calls.give(call("short", life_s=0.01))
    calls.give(call("long"))
    time.sleep(0.05)
    position, found = calls.after(position)
    assert [one.name for one in found] == ["long"]
    assert calls.after(position)[1] == []


def test_a_call_never_lives_longer_than_a_minute(calls: Calls) -> None:
    position = calls.end()
    calls.give(call(life_s=1e9))
    [found] = calls.after(position)[1]
    assert found.life_s <= 60.0


def test_a_call_is_read_with_what_is_left_of_its_life(calls: Calls) -> None:
    position = calls.end()
    calls.give(call())
    time.sleep(0.2)
    [found] = calls.after(position)[1]
    assert found.life_s < 59.9


def test_arguments_that_are_no_json_or_too_large_are_refused(calls: Calls) -> None:
    position = calls.end()
    for wrong in (object(), float("nan"), "x" * 100_000):
        with pytest.raises(ArgumentError, match="the arguments of flush must"):
            calls.give(call("flush", wrong))
    assert calls.after(position)[1] == []


def test_the_stream_of_calls_is_bounded(calls: Calls) -> None:
    position = calls.end()
    for number in range(1_500):
        calls.give(call(str(number)))
    found = [one.name for one in calls.after(position)[1]]
    assert found[-1] == "1499"
    assert 1_000 <= len(found) < 1_200


def test_answers_are_collected_the_first_of_each_process(calls: Calls, other: Process) -> None:
    assert calls.answers("none") == []
    mine = Answer("me", {"flushed": 3})
    lacking = Answer("third", error="not here", here=False)
    for answer in (mine, Answer("me", "again"), Answer("other", error="no such command"), lacking):
        other.broker.require_part(Calls).answer("id", answer)
    other.broker.require_part(Calls).answer("id of another", Answer("me"))
    assert [*calls.answers("id")] == [mine, Answer("other", error="no such command"), lacking]


def test_calls_and_answers_are_told_at_once_until_the_end_of_listening(calls: Calls) -> None:
    told, answered = [], []
    end, end_watch = calls.listen(lambda: told.append(1)), calls.watch("id", lambda: answered.append(1))
    assert eventually(lambda: told and answered), "something may have happened before"
    told.clear()
    answered.clear()
    calls.give(call())
    assert eventually(lambda: told)
    assert not answered
    calls.answer("id", Answer("me"))
    assert eventually(lambda: answered)
    end()
    end_watch()

    def are_silent() -> bool:
        before = len(told), len(answered)
        calls.give(call())
        calls.answer("id", Answer("me"))
        time.sleep(0.2)
        return (len(told), len(answered)) == before

    assert eventually(are_silent), "a message of before may have been on its way to the two, but no later one is"


# --- reports


def test_reports_are_read_in_order_from_a_position_or_the_last_ones(calls: Calls, other: Process) -> None:
    assert calls.reports("", 10) == []
    for number in range(5):
        other.broker.require_part(Calls).report("import", "host:1:a", f'{{"rows": {number}}}')
    last = calls.reports("", 2)
    assert [(one.name, one.identity, one.body) for one in last] == [
        ("import", "host:1:a", {"rows": 3}), ("import", "host:1:a", {"rows": 4}),
    ]  # fmt: skip
    first, second = calls.reports(calls.reports("", 5)[0].position, 2)
    assert (first.body, second.body) == ({"rows": 1}, {"rows": 2})
    assert abs(first.at - time.time()) < 3_600
    assert calls.reports(last[-1].position, 10) == []
    calls.report("export", "host:2:b", "{}")
    assert [one.name for one in calls.reports(last[-1].position, 10)] == ["export"]


@pytest.mark.parametrize("wrong", ["x", "-1", "1)", "- +", " 5", "\u0662", "9" * 5_000, "[" * 5_000, "null", "[1]"])
def test_a_position_that_no_report_had_is_refused(calls: Calls, wrong: str) -> None:
    with pytest.raises(ArgumentError, match="is not the position of an entry"):
        calls.reports(wrong, 10)


def test_the_stream_of_reports_is_bounded(calls: Calls) -> None:
    for _ in range(5_300):
        calls.report("import", "host:1:a", "{}")
    assert 5_000 <= len(calls.reports("", 10_000)) < 5_200


def test_actions_and_reports_are_two_lists(me: Process, calls: Calls) -> None:
    me.broker.admin.note_action(written_entry("ada", "retry", "jobs", 1, "10.0.0.7"))
    calls.report("import", "host:1:a", "{}")
    assert (len(me.broker.admin.actions("", 10)), len(calls.reports("", 10))) == (1, 1)
