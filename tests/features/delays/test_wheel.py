"""The time wheel, beside a simple model: a dict that is searched as a whole."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.delays.wheel import Wheel

NOW = 1_764_086_400.0


class Timer(NamedTuple):
    id: str
    due: float


def wheel(tick: float = 1.0, slots: int = 3600, now: float = NOW) -> Wheel[Timer]:
    return Wheel(tick, slots, now)


def ids(timers: list[Timer]) -> list[str]:
    return [timer.id for timer in timers]


def test_a_timer_is_taken_in_the_first_tick_after_it_is_due() -> None:
    one = wheel()
    one.insert(Timer("a", NOW + 5.5))
    assert ids(one.advance(NOW + 5.9)) == []
    assert ids(one.advance(NOW + 6.0)) == ["a"]
    assert len(one) == 0


@pytest.mark.parametrize("delay", [3599, 3600, 3601, 3700, 7199, 7200, 86_400])
def test_a_delay_longer_than_a_turn_does_not_fire_a_turn_early(delay: int) -> None:
    """The original fired a delay of 3700 s after 100 s."""
    one = wheel()
    one.insert(Timer("a", NOW + delay))
    for passed in range(1, delay + 1, 97):
        assert one.advance(NOW + passed) == []
    assert one.advance(NOW + delay - 0.5) == []
    assert ids(one.advance(NOW + delay + 1)) == ["a"]


def test_a_timer_that_is_due_already_is_not_put_into_the_wheel() -> None:
    """The original counted a negative delay below slot 0."""
    one = wheel()
    assert not one.insert(Timer("a", NOW - 10))
    assert len(one) == 0
    assert sum(one.quantity(slot) for slot in range(3600)) == 0


def test_a_quantity_is_told_of_slots_that_there_are() -> None:
    one = wheel(slots=10)
    for number in range(25):
        one.insert(Timer(str(number), NOW + number))
    assert [one.quantity(slot) for slot in range(10)] == [2, 3, 3, 3, 3, 3, 2, 2, 2, 2]
    for slot in (-1, 10):
        with pytest.raises(ArgumentError, match=f"slots 0 to 9, and no slot {slot}"):
            one.quantity(slot)


def test_what_became_due_in_a_long_pause_is_taken_at_once_and_in_order() -> None:
    one = wheel(slots=10)
    for number in (30, 7, 12, 500, 99):
        one.insert(Timer(str(number), NOW + number))
    assert ids(one.advance(NOW + 100)) == ["7", "12", "30", "99"]
    assert ids(one.advance(NOW + 500 + 1)) == ["500"]


def test_a_clock_that_goes_back_loses_and_repeats_nothing() -> None:
    one = wheel()
    one.insert(Timer("a", NOW + 5))
    one.insert(Timer("b", NOW + 50))
    assert ids(one.advance(NOW + 10)) == ["a"]
    assert one.advance(NOW - 10_000) == []
    assert ids(one.advance(NOW + 51)) == ["b"]


def test_after_a_clock_went_back_a_new_timer_is_due_by_that_clock() -> None:
    one = wheel()
    one.insert(Timer("old", NOW + 20))
    one.advance(NOW + 10)
    one.advance(NOW - 600)
    assert one.insert(Timer("new", NOW - 560))
    assert one.advance(NOW - 561) == []
    assert ids(one.advance(NOW - 558)) == ["new"]
    assert ids(one.advance(NOW + 22)) == ["old"]


# A step: a timer is put in, taken out or moved, or some time goes by.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9), st.floats(-3.0, 90.0)),
        st.tuples(st.just("remove"), st.integers(0, 9), st.just(0.0)),
        st.tuples(st.just("pass"), st.just(0), st.one_of(st.floats(0.0, 3.0), st.floats(0.0, 200.0))),
    ),
    max_size=60,
)


@given(steps=STEPS, tick=st.sampled_from([0.01, 0.1, 0.25, 1.0, 7.0]), slots=st.integers(2, 12))
def test_it_does_what_a_search_of_all_timers_would_do(
    steps: list[tuple[str, int, float]], tick: float, slots: int
) -> None:
    now = NOW
    one, model = wheel(tick, slots, now), dict[str, Timer]()
    for kind, number, seconds in steps:
        key = str(number)
        if kind == "put":
            timer = Timer(key, now + seconds * tick)
            model.pop(key, None)
            if one.insert(timer):
                model[key] = timer
            else:
                assert timer.due <= now
        elif kind == "remove":
            assert one.remove(key) == model.pop(key, None)
        else:
            now += seconds * tick
            reached = math.floor(now / tick) * tick
            taken = one.advance(now)
            # Not before its time, but for the rounding of a float, and at the latest at the begin of the next tick.
            assert all(timer.due <= now + 1e-6 for timer in taken)
            assert taken == sorted(taken, key=lambda timer: timer.due)
            for timer in taken:
                assert model.pop(timer.id) is timer
            assert all(timer.due > reached - tick * 1.001 for timer in model.values())
            assert all(timer.due + 1e-6 > reached for timer in model.values())
        assert sorted(timer.id for timer in one) == sorted(model)
        assert sum(one.quantity(slot) for slot in range(slots)) == len(one) == len(model)
