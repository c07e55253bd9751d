"""The expiry of a job that people push again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from apps import job

from goworkers_py.admin.again import Again
from goworkers_py.wire.message import Timestamps
from goworkers_py.wire.stored_job import StoredJob


def again(now: float, **fields: Any) -> dict[str, Any]:
    push = Again().push(StoredJob(job("J", jid="first", **fields)), now, Timestamps())
    found: dict[str, Any] = json.loads(push.payload)
    return found


@pytest.mark.parametrize("field", ["expires_at", "expiry"])
def test_a_job_that_expires_gets_as_much_time_again(field: str) -> None:
    assert again(1_000.0, created_at=100.0, **{field: 160.0})[field] == 1_060.0
    assert again(1_000.0, created_at=200.0, **{field: 160.0})[field] == 1_000.0


def test_a_job_of_which_nobody_knows_when_it_was_pushed_keeps_its_expiry() -> None:
    assert again(1_000.0, expires_at=160.0)["expires_at"] == 160.0
