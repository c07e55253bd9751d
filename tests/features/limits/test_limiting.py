"""Which slots a job needs by its class."""

from __future__ import annotations

import json
from datetime import date

import pytest

from goworkers_py.config.job_options import CodeOptions
from goworkers_py.config.options import Config
from goworkers_py.features.limits.api import Limit
from goworkers_py.features.limits.limit import LimitSpec, Slot
from goworkers_py.features.limits.limiting import Limiting, slot_for
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.wire.message import Message


def close(day: date) -> None: ...


def test_the_key_of_a_limit_is_made_from_the_arguments_as_the_function_gets_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Registry()
    limit = LimitSpec("by-year", 2, by=lambda day: 7 // (day.year - 2000))
    registry.add(JobSpec("Close", close, options=CodeOptions(limits=[Limit(limit, None)])))  # type: ignore[arg-type]
    limiting = Limiting(registry, Config())

    def slots(day: str) -> list[Slot]:
        message = Message(json.dumps({"class": "Close", "jid": "1", "args": [day]}).encode(), "q")
        return [tie.slot for tie in limiting.ties(message, limiting.of(message))]

    assert slots("2007-01-31") == [slot_for(limit, [date(2007, 1, 31)], {})]
    assert slots("2000-01-31") == [Slot("by-year")]
    assert "`by` fails for class Close, so the job counts under no key: ZeroDivisionError" in caplog.text
