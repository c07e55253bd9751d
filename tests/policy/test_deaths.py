"""Which deaths are taken to be one."""

from __future__ import annotations

import pytest

from goworkers_py.core.timing import TIMING
from goworkers_py.policy.deaths import SILENT_S, SILENT_TOGETHER_S, Life, died_together

NOW = 1_700_000_000.0
DEAD = Life("here", began=NOW - 1_000, heard=NOW - 65, died_at=NOW)


@pytest.mark.parametrize(
    ("other", "together"),
    [
        pytest.param(Life("here", NOW - 1_000, NOW - 2), False, id="lives"),
        pytest.param(Life("here", NOW - 1_000, NOW - 500, died_at=NOW - 440), False, id="died long before"),
        pytest.param(Life("here", NOW - 1_000, NOW - 200, died_at=NOW - 2), True, id="died at the same time"),
        pytest.param(Life("there", NOW - 1_000, NOW - 200, died_at=NOW - 2), False, id="died on another machine"),
        pytest.param(Life("here", NOW - 1_000, NOW - 58), True, id="silent for as long"),
        pytest.param(Life("here", NOW - 1_000, NOW - 40), False, id="silent since later"),
        pytest.param(Life("there", NOW - 1_000, NOW - 65), False, id="silent on another machine"),
    ],
)
def test_deaths_of_one_machine_at_one_time_are_one(other: Life, together: bool) -> None:
    assert died_together(DEAD, other, NOW) is together


def test_a_silence_of_less_than_half_a_lease_is_none() -> None:
    dead = Life("here", NOW - 1_000, heard=NOW - 25, died_at=NOW)
    assert not died_together(dead, Life("here", NOW - 1_000, heard=NOW - 25), NOW)


def test_one_that_was_dead_when_the_other_began_did_not_die_with_it() -> None:
    dead = Life("here", began=NOW - 1, heard=NOW, died_at=NOW)
    assert not died_together(dead, Life("here", NOW - 1_000, NOW - 100, died_at=NOW - 2), NOW)


def test_silence_is_measured_by_the_times_of_leases() -> None:
    assert TIMING.lease_s / 2 == SILENT_S
    assert TIMING.beat_every_s * 2 == SILENT_TOGETHER_S


def test_the_living_died_with_nobody() -> None:
    assert not died_together(Life("here", NOW - 1_000, NOW - 65), Life("here", NOW - 1_000, NOW - 65), NOW)
