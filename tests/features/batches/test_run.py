"""Which jobs of a batch a worker runs without looking at anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from goworkers_py.features.batches import run as batch_members
from goworkers_py.features.batches.batch import Membership
from goworkers_py.features.batches.effects import EndInBatch
from goworkers_py.features.batches.payload import batch_of
from goworkers_py.features.batches.run import BatchMembers
from goworkers_py.policy.known_needs import SPEAKS

BATCH = {"id": "b1", "to": ["cb"]}


def field(**more: Any) -> dict[str, Any]:
    return {"jid": "j", "pyworkers": {"v": 1, "needs": ["batch"], "batch": BATCH, **more}}


def found(members: BatchMembers, fields: Mapping[str, Any]) -> Membership | None:
    """The batch that counts the good end of such a job."""
    good_end = members.good_end(fields)
    if good_end is None:
        return None
    effect = good_end("j")
    assert isinstance(effect, EndInBatch)
    assert (effect.jid, effect.way) == ("j", "succeeded")
    return effect.member


def test_each_job_of_a_batch_is_told_its_batch() -> None:
    members = BatchMembers(SPEAKS)
    for _ in range(3):
        assert found(members, field()) == Membership("b1", ("cb",))
    assert found(members, field(batch={"id": "b2", "to": []})) == Membership("b2")
    assert found(members, field()) == Membership("b1", ("cb",))


def test_the_field_of_a_batch_is_read_once_for_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[object]()

    def counting(fields: Mapping[str, Any]) -> Membership | None:
        read.append(fields)
        return batch_of(fields)

    monkeypatch.setattr(batch_members, "batch_of", counting)
    members = BatchMembers(SPEAKS)
    for _ in range(100):
        assert found(members, field()) == Membership("b1", ("cb",))
    assert len(read) == 1


@pytest.mark.parametrize(
    "fields",
    [
        field(lock={"name": "n", "for": 60}),
        field(needs=["batch", "telepathy"]),
        field(v=2),
        field(v=True),
        field(batch={**BATCH, "over": True}),
        field(batch={"id": 7}),
    ],
)
def test_a_job_with_another_tie_or_need_is_not_one_of_them(fields: dict[str, Any]) -> None:
    members = BatchMembers(SPEAKS)
    assert found(members, fields) is None
    found(members, field())
    assert found(members, fields) is None
