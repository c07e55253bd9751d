"""What a gem has stored is read at once, whatever it is."""

from __future__ import annotations

import json

import pytest

from goworkers_py.wire.foreign_schedule import of_sidekiq_scheduler


@pytest.mark.parametrize(("every", "seconds"), [("1h30m", 5_400), ("90", 90), ("1" * 300_000, 0), ("\xb2", 0)])
def test_a_span_is_read_in_one_pass(every: str, seconds: int) -> None:
    assert of_sidekiq_scheduler("nightly", json.dumps({"every": every, "class": "C"})).every == seconds
