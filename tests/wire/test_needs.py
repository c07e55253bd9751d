"""The version of the field `pyworkers`, which each reader of a part of it looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from goworkers_py.features.batches.payload import batch_of
from goworkers_py.features.chains.payload import chain_of
from goworkers_py.features.groups.payload import group_of
from goworkers_py.features.limits.payload import slots_of
from goworkers_py.features.unique.payload import lock_of
from goworkers_py.wire.needs import lacking

PARTS = {
    "batch": {"id": "b"},
    "chain": {"id": "c", "n": 1, "part": 1, "to": []},
    "group": {"name": "g", "grace": 1},
    "limits": [{"name": "l", "key": "", "holds": False}],
    "lock": {"name": "n", "for": 60, "until": "success", "conflict": "skip"},
}
READERS: list[Callable[[dict[str, Any]], object]] = [
    batch_of, chain_of, lambda fields: group_of(fields, "q"), slots_of, lock_of,
]  # fmt: skip


def fields(version: object) -> dict[str, Any]:
    return {"class": "Job", "jid": "j", "pyworkers": {"v": version, "needs": [], **PARTS}}


@pytest.mark.parametrize("read", READERS)
def test_a_part_of_another_version_is_not_read(read: Callable[[dict[str, Any]], object]) -> None:
    assert read(fields(1))
    for version in (2, True, "1", None):
        assert not read(fields(version))
        assert lacking(fields(version)["pyworkers"], set())
