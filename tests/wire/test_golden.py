"""Payloads that the real programs wrote, byte for byte: see golden/README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsontext import field_texts

from goworkers_py.config.job_options import CodeOptions
from goworkers_py.core.outcome import DISCARD, Dead, Retry
from goworkers_py.policy.retry import RetryPolicy
from goworkers_py.wire import payload
from goworkers_py.wire.failure import unpack_backtrace
from goworkers_py.wire.message import Message, Timestamps, epoch

FOLDER = Path(__file__).parent / "golden"
INDEX: dict[str, dict[str, Any]] = json.loads((FOLDER / "index.json").read_text("utf-8"))
NOW = 1800000000.5

TIMES = {"at", "created_at", "enqueued_at", "failed_at", "retried_at"}
KNOWN = TIMES | {
    "class", "wrapped", "args", "jid", "queue", "retry", "retry_count", "retry_max", "retry_for", "retry_queue", "dead",
    "backtrace", "error_class", "error_message", "error_backtrace", "tags", "bid", "cattr", "locale", "log_level",
    "display_class", "profile",
}  # fmt: skip
# The fields that a failure writes; it drops `at`.
OF_FAILURE = {"queue", "error_message", "error_class", "retry_count", "failed_at", "retried_at", "error_backtrace"}

each_payload = pytest.mark.parametrize("name", sorted(INDEX))


def raw_of(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def test_the_index_lists_every_file() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} - {"index.json"} == set(INDEX)


def test_every_generation_of_every_program_is_there() -> None:
    programs = {name.partition("-")[0][:3] for name in INDEX}
    assert {"sk5", "sk6", "sk7", "sk8", "gw1", "gw2"} <= programs


@each_payload
def test_every_field_is_found(name: str) -> None:
    message, entry = Message(raw_of(name), "fetched"), INDEX[name]
    expected = dict(entry["expect"])
    expected |= expected.pop("other", {})
    undecodable = set(entry.get("undecodable", ()))

    found = {field: message[field] for field in set(expected) | KNOWN if field in message and field not in undecodable}
    found |= {field: epoch(value) for field, value in found.items() if field in TIMES}
    if "error_backtrace" in found:
        found["error_backtrace"] = unpack_backtrace(found["error_backtrace"])
    assert {field: repr(value) for field, value in found.items()} == {
        field: repr(value) for field, value in expected.items()
    }


@each_payload
def test_a_message_shows_the_fields(name: str) -> None:
    message, expected = Message(raw_of(name), "fetched"), INDEX[name]["expect"]
    assert message.job_class == expected.get("wrapped", expected["class"])
    assert message.jid == expected["jid"]
    assert repr(message.args) == repr(expected["args"])
    assert message.retry_count == expected.get("retry_count")
    assert message.tags == expected.get("tags", [])
    for time in ("created_at", "enqueued_at", "failed_at"):
        assert getattr(message, time) == expected.get(time)
    assert message.queue == "fetched"


@pytest.mark.parametrize("name", [name for name in sorted(INDEX) if "undecodable" in INDEX[name]])
def test_fields_that_only_ruby_reads_do_no_harm(name: str) -> None:
    assert unpack_backtrace(Message(raw_of(name), "fetched")["error_backtrace"]) == []


@each_payload
def test_no_field_is_lost_or_changed_in_a_splice(name: str) -> None:
    raw = raw_of(name)
    assert field_texts(payload.splice(raw, {})) == field_texts(raw)


@each_payload
@pytest.mark.parametrize("style", ["seconds", "ms"])
def test_three_trips_through_schedule_and_retry_change_only_what_they_must(name: str, style: str) -> None:
    before, raw = field_texts(raw_of(name)), raw_of(name)
    timestamps = Timestamps(style)
    policy = RetryPolicy(max_retries=100, timestamps=timestamps)
    failed = False
    for trip in range(3):
        raw = payload.splice(raw, {"enqueued_at": timestamps.write(NOW + trip)})
        message = Message(raw, "fetched")
        outcome = policy.decide(message, ValueError("é"), CodeOptions(), NOW + trip)
        if isinstance(outcome, Retry | Dead):
            raw, failed = outcome.payload, True
        else:
            assert outcome is DISCARD
            assert message["retry"] is False or message["dead"] is False

    after = field_texts(raw)
    changed = {"enqueued_at"}
    if failed:
        changed |= OF_FAILURE | {"at"} | {field for field in TIMES if before.get(field, "").startswith('"')}
        assert "at" not in after
        assert Message(raw, "")["queue"] == json.loads(before.get("retry_queue", '"fetched"'))
        assert Message(raw, "").retry_count == (INDEX[name]["expect"].get("retry_count", -1) + 3)
        assert all(type(Message(raw, "")[field]) in (int, float) for field in TIMES & set(after))
    assert {field: text for field, text in after.items() if field not in changed} == {
        field: text for field, text in before.items() if field not in changed
    }
    kept = [field for field in before if field in after]
    assert [field for field in after if field in before] == kept
    assert len(before) - len(kept) == (failed and "at" in before)
    assert b"\n" not in raw


def failed_before(name: str) -> bool:
    fields = json.loads(raw_of(name))
    return "retry_count" in fields and isinstance(fields.get("failed_at"), int | float)


@pytest.mark.parametrize("name", list(filter(failed_before, sorted(INDEX))))
def test_the_time_of_the_first_failure_stays_as_it_was_written(name: str) -> None:
    policy = RetryPolicy(max_retries=100)
    outcome = policy.decide(Message(raw_of(name), "fetched"), ValueError(), CodeOptions(), NOW)
    assert isinstance(outcome, Retry | Dead) or outcome is DISCARD
    if outcome is not DISCARD:
        assert field_texts(outcome.payload)["failed_at"] == field_texts(raw_of(name))["failed_at"]
