"""Sizes as people read them."""

from __future__ import annotations

import pytest

from goworkers_py.core.byte_size import byte_size


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0 bytes"), (1_023, "1,023 bytes"), (1_024, "1.0 KB"), (1_536, "1.5 KB"), (150 << 10, "150 KB"),
        ((1 << 20) - 1, "1.0 MB"), (1_288_490_189, "1.2 GB"), (5 << 50, "5,120 TB"),
    ],
)  # fmt: skip
def test_a_size_has_the_unit_that_makes_it_short(count: int, told: str) -> None:
    assert byte_size(count) == told
