"""The audit list: what people have changed."""

from __future__ import annotations

import time

import pytest
from harness import Process

from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.redis.admin import audit_list
from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire.audit_record import written_entry


def noted(number: int, who: str = "ada") -> str:
    return written_entry(who, "retry", f"jobs of dead, class {number}", number, "10.0.0.7")


def test_actions_are_read_the_newest_first_and_from_a_position_on(admin: Admin, other: Process) -> None:
    assert [*admin.actions("", 10)] == []
    for number in range(5):
        other.broker.admin.note_action(noted(number))
    first = admin.actions("", 2)
    admin.note_action(noted(5))
    second = admin.actions(first[-1].position, 2)
    last = admin.actions(second[-1].position, 10)
    assert [one.count for one in [*first, *second, *last]] == [4, 3, 2, 1, 0]
    assert [one.count for one in admin.actions("", 1)] == [5]
    assert admin.actions(last[-1].position, 10) == []
    newest = first[0]
    told = newest.who, newest.action, newest.what, newest.source
    assert told == ("ada", "retry", "jobs of dead, class 4", "10.0.0.7")
    assert abs(newest.at - time.time()) < 3_600


def test_an_action_that_this_release_cannot_read_is_left_out_and_a_field_that_it_does_not_know_is_kept(
    admin: Admin,
) -> None:
    for entry in ('{"v": 2, "who": "newer"}', "no JSON", "[]"):
        admin.note_action(entry)
    admin.note_action('{"v": 1, "who": "ada", "action": "kill", "what": "a job", "count": null, "why": "spam"}')
    [found] = admin.actions("", 10)
    assert (found.who, found.count, found.source, found.more) == ("ada", None, "", {"why": "spam"})
    assert found.as_dict()["why"] == "spam"


def test_the_list_of_actions_is_bounded(me: Process, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_list, "ACTIONS_KEPT", 1_000)  # each is an exchange with the server
    kept = 1_000 if "redis" in me.config.broker else 10_000
    for number in range(kept + 300):
        admin.note_action(noted(number))
    found, position = 0, ""
    while page := admin.actions(position, 1_000):
        found, position = found + len(page), page[-1].position
    assert kept <= found < kept + 200


def test_the_inspector_notes_actions_and_shows_them(me: Process, admin: Admin) -> None:
    inspector = Inspector(lambda: me.broker)
    inspector.note_action("ada\ud800", "delete", "x" * 5_000, None, source="10.0.0.7")
    inspector.note_action("bob", "retry", "dead jobs", 12)
    newest, before = inspector.actions()
    assert (newest.who, newest.count, before.count, len(before.what)) == ("bob", 12, None, 1_000)
    assert before.who == "ada\\ud800"
    assert [one.who for one in inspector.actions(limit=1, before=newest.position)] == [before.who]
    with pytest.raises(ArgumentError, match="limit must be 1 to 1,000"):
        inspector.actions(limit=0)


def test_the_steps_of_one_change_are_shown_as_one_entry_with_their_sum(me: Process, admin: Admin) -> None:
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


def test_no_name_in_an_entry_looks_like_another_entry(me: Process, admin: Admin) -> None:
    inspector = Inspector(lambda: me.broker)
    inspector.note_action("ada", "pause", "queue a\n2026-01-01 bob delete\u202e\x1b[2J", 1, source="::1\r")
    (entry,) = inspector.actions()
    assert entry.what == "queue a\\n2026-01-01 bob delete\\u202e\\x1b[2J"
    assert entry.source == "::1\\r"


@pytest.mark.parametrize("wrong", ["x", "-1", "1)", "- +", " 5", "\u0662", "9" * 5_000, "[" * 5_000, "null", "[1]"])
def test_a_position_that_no_entry_had_is_refused(admin: Admin, wrong: str) -> None:
    with pytest.raises(ArgumentError, match="is not the position of an entry"):
        admin.actions(wrong, 10)
