"""What the schedules of sidekiq-cron and sidekiq-scheduler become here, and what they cannot become.

test_interop.py compares with the gem itself.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from goworkers_py.features.periodic.foreign_schedule import of_sidekiq_cron, of_sidekiq_scheduler
from goworkers_py.features.periodic.schedule import ForeignSchedule

UNTRANSLATED = "its rule cannot be translated"


def cron(text: str = "0 3 * * * UTC", **more: str) -> ForeignSchedule:
    return of_sidekiq_cron({"name": "n", "klass": "A", "cron": text, "status": "enabled", **more})


def scheduler(state: str = "", **fields: Any) -> ForeignSchedule:
    told = {"cron": "0 3 * * * UTC", "class": "A", "queue": "q", **fields}
    return of_sidekiq_scheduler("n", json.dumps({key: value for key, value in told.items() if value is not ...}), state)


@pytest.mark.parametrize(
    "text",
    [
        "0 0 */2 * 1", "0 0 1 * */2", "0 0 1 * */1", "0 0 * * 1/2", "0/1 * * * *", "0 0 * * 1#1,1#3", "0 0 * * 1%2",
        "0 0 -2 * *", "0 24 * * *", "60 * * * *", "0 22-4 * * *", "0 0 * 11-2 *", "0 0 * * fri-sun", "0 0 LW * *",
        "0 0 * * 5L", "0 0 * * mon#-1", "0 0 last * *", "/5 * * * *", "0 0 ? * *", "*/0 * * * *", "0 0 * * ٣",
        "@daily", "every day at five", "* * * *", "1 2 3 4 5 6 7", "",
    ],
)  # fmt: skip
def test_an_expression_is_refused_that_ruby_or_cronsim_reads_otherwise(text: str) -> None:
    found = cron(text)
    assert (found.cron, found.obstacles) == ("", (UNTRANSLATED,))


@pytest.mark.parametrize(
    ("text", "expression", "zone"),
    [
        ("0 3 * * *", "0 3 * * *", ""),
        (" 0  3 * * *   Europe/Berlin ", "0 3 * * *", "Europe/Berlin"),
        ("0 3 * * * UTC", "0 3 * * *", "UTC"),
        ("30 0 3 * * mon", "30 0 3 * * mon", ""),
        ("30 0 3 * * * Etc/GMT-14", "30 0 3 * * *", "Etc/GMT-14"),
    ],
)
def test_the_zone_is_what_the_rule_says_and_never_guessed(text: str, expression: str, zone: str) -> None:
    for found in (cron(text), scheduler(cron=text)):
        assert (found.cron, found.timezone, found.obstacles) == (expression, zone, ())


def test_a_zone_without_a_name_is_an_obstacle() -> None:
    [obstacle] = cron("0 3 * * * +02:00").obstacles
    assert obstacle == "its time zone +02:00 has no name of the time zone database"


@pytest.mark.parametrize(
    ("more", "obstacle"),
    [
        ({"active_job": "true"}, "it pushes a job of ActiveJob"),
        ({"date_as_argument": "yes"}, "its jobs get the time as their last argument: use args of a function, in code"),
        ({"args": "words"}, "its arguments are no JSON: words"),
        ({"args": "[" * 5_000}, "its arguments are no JSON: " + "[" * 5_000),
        ({"args": '[{"_sc_globalid":"gid://app/User/1"}]'}, "an argument is a record of Rails"),
    ],
)
def test_what_sidekiq_cron_can_and_a_section_cannot_is_an_obstacle(more: dict[str, str], obstacle: str) -> None:
    assert cron(**more).obstacles == (obstacle,)
    assert cron(active_job="false", date_as_argument="", args="[1]").obstacles == ()


def test_options_of_the_jobs_are_remarks() -> None:
    message = json.dumps({"class": "A", "args": [], "queue": "low", "retry": 3, "lock": "until_executed"})
    found = cron(message=message)
    assert (found.queue, found.remarks) == ("low", ("its jobs have options that a section has not: lock, retry",))
    assert cron(message='{"retry":true,"queue":"low"}').remarks == ()
    assert scheduler(retry=0).remarks == ("its jobs have options that a section has not: retry",)


@pytest.mark.parametrize(
    ("fields", "obstacle"),
    [
        ({"include_metadata": True}, "its jobs get the time as their last argument: use args of a function, in code"),
        ({"args": {"region": "eu"}}, "its arguments are keywords, as of ActiveJob"),
        ({"queue": ...}, "it names no queue: Ruby asks its class, which may be one of ActiveJob"),
        ({"rails_env": "production"}, "it fires only where RAILS_ENV is production"),
        ({"cron": ..., "at": "2030/01/01 12:00"}, UNTRANSLATED),
        ({"cron": ..., "in": "5m"}, UNTRANSLATED),
        ({"cron": ..., "interval": "5m"}, UNTRANSLATED),
        ({"cron": ..., "every": "1.5h"}, UNTRANSLATED),
        ({"cron": ["0 3 * * * UTC", {"overlap": False}]}, "its rule has the option overlap, which does not exist here"),
    ],
)
def test_what_sidekiq_scheduler_can_and_a_section_cannot_is_an_obstacle(fields: dict[str, Any], obstacle: str) -> None:
    assert scheduler(**fields).obstacles == (obstacle,)
    assert scheduler().obstacles == ()


def test_an_interval_is_told_to_begin_elsewhere_and_its_first_time_to_be_lost() -> None:
    found = scheduler(cron=..., every=["1h30m", {"first_in": "5m"}])
    assert (found.every, found.obstacles) == (5_400, ())
    assert found.remarks == (
        "Ruby counts the interval from the start of its process; here it fires at multiples since 1970",
        "its rule has the option first_in, which does not exist here",
    )
    assert (scheduler(every="30").every, scheduler(every="30").cron) == (0, "0 3 * * *")  # cron counts


@pytest.mark.parametrize(("every", "seconds"), [("1h30m", 5_400), ("90", 90), ("1" * 300_000, 0), ("\xb2", 0)])
def test_a_span_is_read_in_one_pass(every: str, seconds: int) -> None:
    assert of_sidekiq_scheduler("nightly", json.dumps({"every": every, "class": "C"})).every == seconds


@pytest.mark.parametrize(
    "text", ["1" * 300_000, f"0 0 * * {'1' * 300_000}", f"*/{'1' * 300_000} * * * *", "*," * 90_000]
)
def test_an_expression_of_any_size_is_read_at_once(text: str) -> None:
    assert cron(text).cron == ""


@pytest.mark.parametrize(
    ("state", "fields", "enabled"),
    [
        ("", {}, True),
        ("", {"enabled": False}, False),
        ("", {"enabled": None}, False),
        ('{"enabled":false}', {}, False),
        ('{"enabled":true}', {"enabled": False}, True),
        ("{no", {"enabled": False}, False),
    ],
)
def test_what_people_have_set_on_the_page_of_sidekiq_scheduler_counts_more(
    state: str, fields: dict[str, Any], enabled: bool
) -> None:
    assert scheduler(state, **fields).enabled is enabled


def test_arguments_are_a_list_as_in_both_gems() -> None:
    assert [scheduler(args=args).args for args in (None, "x", [1], 0)] == [[], ["x"], [1], [0]]
    assert [cron(args=args).args for args in ("", "null", "[1]", '{"a":1}')] == [[], [], [1], [{"a": 1}]]
