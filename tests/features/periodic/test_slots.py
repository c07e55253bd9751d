from __future__ import annotations

import sys
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goworkers_py.core.errors import ConfigError
from goworkers_py.features.periodic.schedule import CatchUp, Rule
from goworkers_py.features.periodic.slots import GRACE_S, MOST_AT_ONCE, due, slots_of

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, fold: int = 0) -> float:
    """A time in Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


def slots_from(rule: Rule, since: float, count: int) -> list[float]:
    found = [since]
    for _ in range(count):
        found.append(slots_of(rule).after(found[-1]))
    return found[1:]


def berlin(cron: str) -> Rule:
    return Rule(cron, 0, "Europe/Berlin")


def test_an_interval_fires_at_its_multiples_so_that_all_processes_name_the_same_slots() -> None:
    assert slots_from(Rule(every=30), 1_000.0, 3) == [1_020.0, 1_050.0, 1_080.0]
    assert slots_of(Rule(every=30)).after(1_020.0) == 1_050.0
    assert slots_of(Rule(every=30)).latest(1_000.0, 1_085.0) == 1_080.0
    assert slots_of(Rule(every=30)).latest(1_080.0, 1_085.0) is None


def test_a_cron_expression_follows_the_clock_of_its_time_zone() -> None:
    assert slots_of(berlin("0 3 * * *")).after(at("2025-01-15 12:00")) == at("2025-01-16 03:00")
    assert slots_of(berlin("0 3 * * *")).after(at("2025-07-15 12:00")) == at("2025-07-16 03:00")
    assert slots_of(Rule("0 3 * * *")).after(at("2025-07-15 12:00")) == at("2025-07-16 05:00")


# --- summer time


def test_a_time_that_the_clock_shows_twice_in_autumn_fires_once() -> None:
    first, second = slots_from(berlin("30 2 * * *"), at("2025-10-26 00:00"), 2)
    assert first == at("2025-10-26 02:30")
    assert second == at("2025-10-27 02:30")


@pytest.mark.parametrize("minute", [0, 19, 30, 31, 59])
def test_it_fires_once_also_for_a_process_that_looks_within_the_repeated_hour(minute: int) -> None:
    look = at(f"2025-10-26 02:{minute:02}", fold=1)
    assert slots_of(berlin("30 2 * * *")).after(look) == at("2025-10-27 02:30")


def test_a_time_that_the_clock_leaves_out_in_spring_fires_at_the_end_of_the_gap() -> None:
    first, second = slots_from(berlin("30 2 * * *"), at("2025-03-30 00:00"), 2)
    assert first == at("2025-03-30 03:00")
    assert second == at("2025-03-31 02:30")


@pytest.mark.parametrize("day", ["2025-10-26", "2025-03-30"])
@pytest.mark.parametrize(("cron", "step_s"), [("0 * * * *", 3_600), ("*/20 * * * *", 1_200)])
def test_an_hourly_job_goes_on_through_both_changes_of_the_clock(day: str, cron: str, step_s: int) -> None:
    found = slots_from(berlin(cron), at(f"{day} 00:00"), 12)
    assert {later - sooner for sooner, later in pairwise(found)} == {step_s}


@given(
    since=st.integers(1_700_000_000, 1_800_000_000),
    cron=st.sampled_from(["30 2 * * *", "0 * * * *", "*/7 1-3 * * *", "15,45 2 * * 0", "0 0 1 * *", "5 4 29 2 *"]),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]),
)
def test_slots_only_go_forward_and_the_latest_one_is_among_them(since: int, cron: str, zone: str) -> None:
    slots = slots_of(Rule(cron, 0, zone))
    found = slots_from(Rule(cron, 0, zone), float(since), 3)
    assert since < found[0] < found[1] < found[2]
    latest = slots.latest(since, found[2])
    assert latest is not None
    assert latest == found[2]
    assert slots.latest(found[0], found[1] - 1) is None


# --- mistakes


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (Rule("0 3 * *"), "'0 3 * *' is no cron expression: Wrong number of fields"),
        (Rule("@hourly"), "write minute, hour, day, month and weekday, such as 0 * * * *"),
        (Rule("61 3 * * *"), "'61 3 * * *' is no cron expression: Bad minute"),
        (Rule("0 0 31 2 *"), "is no cron expression: Bad day-of-month"),
        (Rule("0 3 * * *", 0, "Europe/Berln"), "timezone: 'Europe/Berln' is not known; write a name such as Europe/"),
        (Rule("0 3 * * *", 0, "../etc/passwd"), "timezone: '../etc/passwd' is not known"),
        (Rule("0 3 * * *", 0, "Europe"), "timezone: 'Europe' is not known"),
        (Rule("0 3 * * *", 0, ""), "timezone: '' is not known"),
        (Rule(every=0), "every must be at least 1 second, is 0"),
    ],
)
def test_a_rule_that_cannot_be_read_is_a_mistake_of_the_configuration(rule: Rule, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        slots_of(rule)
    assert told in str(error.value)


def test_without_cronsim_only_cron_expressions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(ConfigError, match=r"pip install 'goworkers-py\[cron\]'"):
        slots_of(Rule("0 3 * * *"))
    assert slots_of(Rule(every=60)).after(0.0) == 60.0


# --- what was missed

HOURLY = slots_of(Rule(every=3_600))
NIGHT = 10 * 3_600.0


def test_nothing_is_due_before_the_next_slot() -> None:
    for catch_up in ("none", "latest", "all"):
        found = due(HOURLY, NIGHT, NIGHT + 100, catch_up)  # type: ignore[arg-type]
        assert (found.fire, found.missed, found.next) == ((), None, NIGHT + 3_600)


@pytest.mark.parametrize(
    ("catch_up", "fire", "missed"),
    [
        ("none", (), (NIGHT + 3_600, NIGHT + 3 * 3_600)),
        ("latest", (NIGHT + 3 * 3_600,), (NIGHT + 3_600, NIGHT + 3 * 3_600)),
        ("all", (NIGHT + 3_600, NIGHT + 2 * 3_600, NIGHT + 3 * 3_600), None),
    ],
)
def test_slots_that_no_process_fired_are_caught_up_with_as_the_option_says(
    catch_up: CatchUp, fire: tuple[float, ...], missed: tuple[float, float] | None
) -> None:
    found = due(HOURLY, NIGHT, NIGHT + 3 * 3_600 + 600, catch_up)
    assert (found.fire, found.missed, found.next) == (fire, missed, NIGHT + 4 * 3_600)


def test_with_none_a_slot_that_is_a_little_late_fires_all_the_same() -> None:
    assert due(HOURLY, NIGHT, NIGHT + 3_600 + GRACE_S, "none").fire == (NIGHT + 3_600,)
    assert due(HOURLY, NIGHT, NIGHT + 3_600 + GRACE_S + 1, "none").fire == ()


def test_with_all_a_look_is_bounded_and_the_next_one_goes_on() -> None:
    seconds = slots_of(Rule(every=1))
    found = due(seconds, 0.0, 2_500.0, "all")
    assert (len(found.fire), found.next) == (MOST_AT_ONCE, MOST_AT_ONCE + 1)
    assert due(seconds, found.fire[-1], 2_500.0, "all").fire[0] == found.next


def test_the_latest_slot_of_a_rare_expression_is_found_after_a_year() -> None:
    slots = slots_of(berlin("0 3 1 1 *"))
    assert slots.latest(at("2023-06-01 00:00"), at("2025-12-31 00:00")) == at("2025-01-01 03:00")
    assert slots.latest(at("2025-06-01 00:00"), at("2025-12-31 00:00")) is None
