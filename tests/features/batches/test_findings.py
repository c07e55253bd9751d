"""The doctor tells of batches that do not end."""

from __future__ import annotations

from goworkers_py.features.batches.batch import BatchStatus
from goworkers_py.features.batches.findings import LONG_OPEN_S, old_batches

NOW = 1_800_000_000.0
OLD = NOW - LONG_OPEN_S - 1


def test_only_old_open_batches_are_told_with_what_ends_them() -> None:
    told = list(
        old_batches(
            [
                BatchStatus("new", at=NOW - 10, total=1),
                BatchStatus("ended", at=OLD, ended_at=NOW),
                BatchStatus("jobs", "import", OLD, total=3, succeeded=1),
                BatchStatus("held", at=OLD, total=1, succeeded=1, holds=1),
            ],
            NOW,
        )
    )
    assert [one.what for one in told] == [
        "batch jobs (import) is open for 3 days, and 2 jobs of it have not ended",
        "batch held is open for 3 days, and all its jobs have ended",
    ]
    assert "--force" in told[0].todo
    assert "batches close" in told[1].todo
