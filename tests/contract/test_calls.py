"""Calls: commands to processes, and their answers; reports and the audit list."""

from __future__ import annotations

import dataclasses
import time

import pytest
from harness import Process, can
from waiting import eventually

from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.broker import Capability
from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.commands import redis as redis_calls
from goworkers_py.features.commands.call import Answer, Call, Target
from goworkers_py.features.commands.contract import Calls
from goworkers_py.wire.audit_record import written_entry


@pytest.fixture
def calls(me: Process) -> Calls:
    return can(me.broker, Capability.CALLS).calls


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
    other.broker.calls.give(call())
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
        other.broker.calls.answer("id", answer)
    other.broker.calls.answer("id of another", Answer("me"))
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
        other.broker.calls.report("import", "host:1:a", f'{{"rows": {number}}}')
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
def test_a_position_that_no_report_and_no_action_had_is_refused(calls: Calls, wrong: str) -> None:
    for verb in (calls.reports, calls.actions):
        with pytest.raises(ArgumentError, match="is not the position of an entry"):
            verb(wrong, 10)


def test_the_stream_of_reports_is_bounded(calls: Calls) -> None:
    for _ in range(5_300):
        calls.report("import", "host:1:a", "{}")
    assert 5_000 <= len(calls.reports("", 10_000)) < 5_200


# --- the audit list


def noted(number: int, who: str = "ada") -> str:
    return written_entry(who, "retry", f"jobs of dead, class {number}", number, "10.0.0.7")


def test_actions_are_read_the_newest_first_and_from_a_position_on(calls: Calls, other: Process) -> None:
    assert [*calls.actions("", 10)] == []
    for number in range(5):
        other.broker.calls.note_action(noted(number))
    first = calls.actions("", 2)
    calls.note_action(noted(5))
    second = calls.actions(first[-1].position, 2)
    last = calls.actions(second[-1].position, 10)
    assert [one.count for one in [*first, *second, *last]] == [4, 3, 2, 1, 0]
    assert [one.count for one in calls.actions("", 1)] == [5]
    assert calls.actions(last[-1].position, 10) == []
    newest = first[0]
    told = newest.who, newest.action, newest.what, newest.source
    assert told == ("ada", "retry", "jobs of dead, class 4", "10.0.0.7")
    assert abs(newest.at - time.time()) < 3_600


def test_actions_and_reports_are_two_lists(calls: Calls) -> None:
    calls.note_action(noted(1))
    calls.report("import", "host:1:a", "{}")
    assert (len(calls.actions("", 10)), len(calls.reports("", 10))) == (1, 1)


def test_an_action_that_this_release_cannot_read_is_left_out_and_a_field_that_it_does_not_know_is_kept(
    calls: Calls,
) -> None:
    for entry in ('{"v": 2, "who": "newer"}', "no JSON", "[]"):
        calls.note_action(entry)
    calls.note_action('{"v": 1, "who": "ada", "action": "kill", "what": "a job", "count": null, "why": "spam"}')
    [found] = calls.actions("", 10)
    assert (found.who, found.count, found.source, found.more) == ("ada", None, "", {"why": "spam"})
    assert found.as_dict()["why"] == "spam"


def test_the_list_of_actions_is_bounded(me: Process, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_calls, "ACTIONS_KEPT", 1_000)  # each is an exchange with the server
    kept = 1_000 if me.config.broker.startswith("redis") else 10_000
    for number in range(kept + 300):
        calls.note_action(noted(number))
    found, position = 0, ""
    while page := calls.actions(position, 1_000):
        found, position = found + len(page), page[-1].position
    assert kept <= found < kept + 200


def test_the_inspector_notes_actions_and_shows_them(me: Process, calls: Calls) -> None:
    inspector = Inspector(lambda: me.broker)
    inspector.note_action("ada\ud800", "delete", "x" * 5_000, None, source="10.0.0.7")
    inspector.note_action("bob", "retry", "dead jobs", 12)
    newest, before = inspector.actions()
    assert (newest.who, newest.count, before.count, len(before.what)) == ("bob", 12, None, 1_000)
    assert before.who == "ada\\ud800"
    assert [one.who for one in inspector.actions(limit=1, before=newest.position)] == [before.who]
    with pytest.raises(ArgumentError, match="limit must be 1 to 1,000"):
        inspector.actions(limit=0)


def test_the_steps_of_one_change_are_shown_as_one_entry_with_their_sum(me: Process, calls: Calls) -> None:
    inspector = Inspector(lambda: me.broker)
    inspector.note_action("bob", "retry", "first", 1)
    for step in range(300):
        inspector.note_action("ada", "delete", f"step {step}", 7, change="c1")
    inspector.note_action("ada", "delete", "failed", None, change="c1")
    inspector.note_action("eve", "delete", "of another one", 5, change="c1")
    inspector.note_action("ada", "delete", "of another change", 3, change="c2")
    inspector.note_action("bob", "retry", "last", 1)
    shown = [("last", 1), ("of another change", 3), ("of another one", 5), ("failed", 2_100), ("first", 1)]
    assert [(one.what, one.count) for one in inspector.actions()] == shown
    position, found = "", []
    while page := inspector.actions(1, position):
        found, position = found + page, page[-1].position
    assert [(one.what, one.count) for one in found] == shown


def test_no_name_in_an_entry_looks_like_another_entry(me: Process, calls: Calls) -> None:
    inspector = Inspector(lambda: me.broker)
    inspector.note_action("ada", "pause", "queue a\n2026-01-01 bob delete\u202e\x1b[2J", 1, source="::1\r")
    (entry,) = inspector.actions()
    assert entry.what == "queue a\\n2026-01-01 bob delete\\u202e\\x1b[2J"
    assert entry.source == "::1\\r"
