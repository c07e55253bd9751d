"""When processes count as having died together."""

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
def test_processes_of_one_machine_that_die_at_one_time_died_together(other: Life, together: bool) -> None:
    assert died_together(DEAD, other, NOW) is together


def test_a_process_with_a_beat_in_the_last_half_lease_is_not_silent() -> None:
    dead = Life("here", NOW - 1_000, heard=NOW - 25, died_at=NOW)
    assert not died_together(dead, Life("here", NOW - 1_000, heard=NOW - 25), NOW)


def test_a_process_that_was_dead_before_another_began_did_not_die_with_it() -> None:
    dead = Life("here", began=NOW - 1, heard=NOW, died_at=NOW)
    assert not died_together(dead, Life("here", NOW - 1_000, NOW - 100, died_at=NOW - 2), NOW)


def test_the_times_of_silence_follow_the_times_of_leases() -> None:
    assert TIMING.lease_s / 2 == SILENT_S
    assert TIMING.beat_every_s * 2 == SILENT_TOGETHER_S


def test_a_live_process_did_not_die_together_with_another() -> None:
    assert not died_together(Life("here", NOW - 1_000, NOW - 65), Life("here", NOW - 1_000, NOW - 65), NOW)
