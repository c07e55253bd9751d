"""The locks of sidekiq-unique-jobs that are freed here: which steps change them, and how a payload tells of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goworkers_py.core.effect import PushJobs
from goworkers_py.core.outcome import (
    CANCELLED,
    DONE,
    REQUEUE,
    UNACKNOWLEDGED,
    Dead,
    Discard,
    Outcome,
    Reschedule,
    Retry,
)
from goworkers_py.features.for_ruby.effects import FreeRubyLock, TakeRubyLock
from goworkers_py.features.for_ruby.end import Echoes, ForRuby
from goworkers_py.features.for_ruby.lock import RubyLock, ruby_lock_of
from goworkers_py.features.for_ruby.options import EchoConfig
from goworkers_py.wire.message import Message

NATIVE = ForRuby(locks=True)
FREE, FREE_RUN, TAKE = FreeRubyLock("j", "d"), FreeRubyLock("j", "d:RUN"), TakeRubyLock("j", "d", 1, 0)
TAKE_RUN = TakeRubyLock("j", "d:RUN", 1, 0)


def job(kind: str = "until_executed", **more: Any) -> bytes:
    fields = {"class": "A", "jid": "j", "args": [], "lock": kind, "lock_digest": "d", **more}
    return json.dumps(fields).encode()


def effects(kind: str, outcome: Outcome) -> set[object]:
    return set(NATIVE.of_run(Message(job(kind), "py"), outcome))


@pytest.mark.parametrize(
    ("kind", "success", "goes_on", "other_end"),
    [
        ("until_executed", {FREE}, set(), {FREE}),
        ("until_executing", {FREE}, {TAKE}, {FREE}),
        ("until_expired", set(), set(), {FREE}),
        ("while_executing", {FREE, FREE_RUN}, {FREE_RUN}, {FREE, FREE_RUN}),
        ("until_and_while_executing", {FREE, FREE_RUN}, {FREE_RUN, TAKE}, {FREE, FREE_RUN}),
    ],
)
def test_what_a_step_does_with_the_lock_depends_on_its_kind(
    kind: str, success: set[object], goes_on: set[object], other_end: set[object]
) -> None:
    assert effects(kind, DONE) == success
    for outcome in (Retry(1.0, b""), Reschedule(1.0, b""), REQUEUE):
        assert effects(kind, outcome) == goes_on
    for outcome in (Dead(b"{}"), Discard(), CANCELLED):
        assert effects(kind, outcome) == other_end
    assert effects(kind, UNACKNOWLEDGED) == set()
    assert set(NATIVE.of_move(job(kind), "waiting")) == goes_on  # recovered from a dead process
    assert set(NATIVE.of_move(job(kind), "cancelled")) == other_end


@pytest.mark.parametrize(
    ("kind", "goes_on"), [("while_executing", (FREE_RUN,)), ("until_and_while_executing", (FREE_RUN, TAKE_RUN))]
)
def test_a_digest_that_is_already_that_of_the_run_is_the_only_lock(kind: str, goes_on: tuple[object, ...]) -> None:
    """The gem's client writes it for `while_executing`, and its server for a job that it rejects."""
    raw = job(kind, lock_digest="d:RUN")
    assert NATIVE.of_run(Message(raw, "py"), DONE) == (FREE_RUN,)
    assert NATIVE.of_run(Message(raw, "py"), REQUEUE) == goes_on
    lock = ruby_lock_of(json.loads(raw))
    assert lock is not None
    assert lock.needed == "d:RUN"


@pytest.mark.parametrize(
    ("kind", "needed", "freed_at_start"),
    [
        *((kind, "d", False) for kind in (
            "until_executed", "until_completed", "until_performed", "until_processed", "until_successfully_completed",
        )),
        *((kind, "d:RUN", False) for kind in (
            "while_executing", "while_executing_reject", "around_perform", "while_busy", "while_working",
        )),
        ("until_and_while_executing", "d:RUN", True),
        ("until_executing", "", True),
        ("while_enqueued", "", True),
        ("until_expired", "", False),
        ("of_somebody", "", False),
    ],
)  # fmt: skip
def test_a_job_begins_with_the_lock_that_its_kind_needs(kind: str, needed: str, freed_at_start: bool) -> None:
    lock = RubyLock("d", "j", kind)
    assert (lock.needed, lock.freed_at_start) == (needed, freed_at_start)


def test_only_the_conflict_of_a_lock_of_the_run_rejects_a_job() -> None:
    """As in the gem, whose `until_executed` never asks."""
    assert RubyLock("d", "j", "while_executing", on_conflict="reject").rejects
    assert not RubyLock("d", "j", "until_executed", on_conflict="reject").rejects


def test_a_job_with_an_echo_has_its_lock_freed_by_ruby_alone() -> None:
    """Else the middleware of the echo would take the lock of the next job."""
    both = ForRuby(Echoes("echoes", locks=False), locks=True)
    of_batch = Message(job(bid="b"), "py")
    assert [type(one) for one in both.of_run(of_batch, DONE)] == [PushJobs]
    assert both.lock_of(of_batch.fields) is None
    assert both.of_run(Message(job(), "py"), DONE) == (FREE,)


def test_nothing_is_done_for_ruby_unless_it_is_asked_for() -> None:
    assert ForRuby.of(EchoConfig()) is None
    assert ForRuby.of(EchoConfig(locks="native")) == ForRuby(None, locks=True)
    assert ForRuby.of(EchoConfig("q", locks="native")) == ForRuby(Echoes("q", locks=False), locks=True)
    assert ForRuby.of(EchoConfig("q")) == ForRuby(Echoes("q"))
    assert NATIVE.fields == {"lock_digest"}
    assert ForRuby(Echoes("q", batches=False)).fields == {"lock_digest", "unique_for"}


@pytest.mark.parametrize(
    ("fields", "lock"),
    [
        ({}, RubyLock("d", "j", "until_executed")),
        ({"lock_limit": 3, "lock_ttl": 60.0}, RubyLock("d", "j", "until_executed", 3, 60)),
        ({"lock_limit": "many", "lock_ttl": None}, RubyLock("d", "j", "until_executed")),
        ({"on_conflict": "reject"}, RubyLock("d", "j", "until_executed", on_conflict="reject")),
        (
            {"on_conflict": {"client": "log", "server": "raise"}},
            RubyLock("d", "j", "until_executed", on_conflict="raise"),
        ),
        ({"lock_digest": 1}, None),
        ({"lock": None}, None),
        ({"jid": ""}, None),
    ],
)
def test_a_payload_tells_of_its_lock(fields: dict[str, Any], lock: RubyLock | None) -> None:
    assert ruby_lock_of(json.loads(job(**fields))) == lock
