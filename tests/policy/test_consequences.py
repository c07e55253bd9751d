"""What becomes of the ties of a job by the end of its run."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import pytest

from goworkers_py.core.job_state import StateWord
from goworkers_py.core.outcome import (
    CANCELLED,
    DISCARD,
    DONE,
    EXPIRED,
    REQUEUE,
    Dead,
    Joined,
    Outcome,
    Reschedule,
    Retry,
)
from goworkers_py.features.groups.effects import EndMember
from goworkers_py.features.groups.end import AT_ONCE, end_of_set
from goworkers_py.features.groups.group import Group
from goworkers_py.features.groups.payload import GroupMember
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.policy.consequences import consequences, state_of


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (DONE, "completed"),
        (Dead(b"{}"), "dead"),
        (DISCARD, "dead"),
        (CANCELLED, "cancelled"),
        (EXPIRED, "expired"),
        (Retry(1.0, b""), "retry"),
        (Reschedule(1.0, b""), "scheduled"),
        (Joined(), "grouped"),
        (REQUEUE, "waiting"),
    ],
)
def test_each_outcome_has_its_state(outcome: Outcome, state: StateWord) -> None:
    assert state_of(outcome) == state


@pytest.mark.parametrize(("until", "ends"), [("expiry", ()), ("success", (FreeLock("1", "L"),))])
def test_a_lock_until_its_expiry_outlives_a_success(until: str, ends: tuple[object, ...]) -> None:
    fields = {"jid": "1", "pyworkers": {"v": 1, "lock": {"name": "L", "for": 60, "until": until}}}
    assert consequences(fields, DONE, 0.0) == ends
    assert consequences(fields, CANCELLED, 0.0) == (FreeLock("1", "L"),)
    assert consequences(fields, Retry(100.0, b""), 10.0) == (KeepLock("1", "L", 60, 100.0),)


@pytest.mark.parametrize("many", [AT_ONCE, AT_ONCE + 1])
def test_a_set_whose_members_have_too_many_effects_for_a_step_is_left_to_be_ended(many: int) -> None:
    group = Group("q", "Job", "", "s")

    def member(jid: str, state: StateWord) -> GroupMember:
        fields = {"jid": jid, "pyworkers": {"v": 1, "lock": {"name": jid, "for": 60}}}
        return GroupMember(json.dumps(fields).encode(), fields, state)

    members = [member(str(number), "completed") for number in range(many - 1)]
    end = end_of_set(group, [*members, member("late", "expired")], (), "by")
    if many == AT_ONCE:
        assert (len(end.effects), end.into) == (AT_ONCE, None)
    else:
        assert [type(effect) for effect in end.effects] == [EndMember]
        assert end.into == group._replace(set="s-ended")


@pytest.mark.parametrize("kind", get_args(Outcome))
def test_each_outcome_leaves_its_job_in_a_state(kind: type[Any]) -> None:
    values = {"at": 1.0, "payload": b"{}", "line": "line"}
    needed = {field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING}
    assert state_of(kind(**{name: values[name] for name in needed})) in get_args(StateWord)


def test_an_outcome_of_a_class_of_the_users_leaves_its_job_in_the_same_state() -> None:
    class Late(Dead):
        """A link returns it."""

    assert state_of(Late(b"{}")) == "dead"
