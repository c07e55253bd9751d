"""Which unique jobs a worker runs without looking at anything but their locks."""

from __future__ import annotations

from typing import Any

import pytest

from goworkers_py.features.unique.effects import FreeLock
from goworkers_py.features.unique.payload import SHORT_S
from goworkers_py.features.unique.run import good_end_of
from goworkers_py.policy.known_needs import SPEAKS

LONG_S = int(SHORT_S) + 1


def fields(lock: Any = None, **more: Any) -> dict[str, Any]:
    lock = {"name": "n", "for": LONG_S} if lock is None else lock
    return {"jid": "j", "pyworkers": {"v": 1, "needs": ["unique"], "lock": lock, **more}}


@pytest.mark.parametrize("of_unique", [fields(), fields(needs=["kwargs", "unique"])])
def test_the_good_end_of_a_job_that_does_not_ask_frees_its_lock(of_unique: dict[str, Any]) -> None:
    good_end = good_end_of(SPEAKS, of_unique)
    assert good_end is not None
    assert good_end("j") == FreeLock("j", "n")


@pytest.mark.parametrize(
    "others",
    [
        fields({"name": "n", "for": SHORT_S}),
        fields({"name": "n", "for": LONG_S, "until": "start"}),
        fields({"name": "n", "for": LONG_S, "until": "expiry"}),
        fields({"name": "n", "for": LONG_S, "conflict": "replace"}),
        fields({"name": "n", "for": LONG_S, "conflict": "reschedule"}),
        fields({"name": 7, "for": LONG_S}),
        fields("lock"),
        fields(batch={"id": "b", "to": []}),
        fields(needs=["telepathy", "unique"]),
        fields(v=True),
    ],
)
def test_a_job_that_has_to_ask_or_has_another_tie_is_none_of_them(others: dict[str, Any]) -> None:
    assert good_end_of(SPEAKS, others) is None
