"""Reads the schedules of sidekiq-cron and sidekiq-scheduler, as their gems have written them.

A field that would mean something else here is an obstacle: the schedule is not to be taken over as it stands. A field
that is lost or means something a little different is a remark. Nothing is guessed: both gems read a time without a zone
in the zone of their process, which no record tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo

import simplejson

from goworkers_py.features.periodic.schedule import ForeignSchedule

# No number has more than nine digits: any number of them would be read anew from each one on.
_SPANS = re.compile(r"([0-9]{1,9})(w|d|h|m|s)")
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_Range = tuple[int, int, Mapping[str, int]]  # the lowest and the highest value of a field, and its names
_FIELDS: tuple[_Range, ...] = (
    (0, 59, {}), (0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, _MONTHS), (0, 7, _DAYS),
)  # fmt: skip
_ITEM = re.compile(r"(?:\*|([0-9a-z]{1,9})(?:-([0-9a-z]{1,9}))?)(?:/([0-9]{1,9}))?")
_NTH_DAY = re.compile(r"([0-9a-z]{1,9})#[1-5]")

_YES = re.compile(r"(?i:true|t|yes|y|1)\Z")  # as sidekiq-cron reads its flags
# The keys of a job of sidekiq-scheduler that say when it fires and what it pushes. The gem hands all others to the job.
_OF_THE_SCHEDULE = {
    "cron", "every", "at", "in", "interval", "class", "queue", "args", "description", "enabled", "include_metadata",
    "rails_env",
}  # fmt: skip
# The fields of a payload that sidekiq-cron keeps in `message`, without those that all jobs have.
_PLAIN = {"class", "queue", "args", "description"}


def of_sidekiq_cron(fields: Mapping[str, str]) -> ForeignSchedule:
    """`fields`: the hash of one of its jobs."""
    rule = str(fields.get("cron", ""))
    cron, timezone, obstacles = _cron(rule)
    message = _json(fields.get("message", ""))
    message = message if isinstance(message, dict) else {}
    queue = fields.get("queue") or message.get("queue") or "default"
    text = fields.get("args", "")
    args = _json(text)
    if text and args is None and text != "null":
        obstacles.append(f"its arguments are no JSON: {text}")
    if "_globalid" in text:
        obstacles.append("an argument is a record of Rails")
    if _YES.match(fields.get("active_job", "")):
        obstacles.append("it pushes a job of ActiveJob")
    if _YES.match(fields.get("date_as_argument", "")):
        obstacles.append("its jobs get the time as their last argument: use args of a function, in code")
    return ForeignSchedule(
        "sidekiq-cron",
        fields.get("name", ""),
        rule,
        cron,
        0,
        timezone,
        fields.get("klass", ""),
        str(queue),
        _list(args),
        fields.get("status", "enabled") == "enabled",
        tuple(obstacles),
        tuple(_options(key for key, value in message.items() if key not in _PLAIN and (key, value) != ("retry", True))),
    )


def of_sidekiq_scheduler(name: str, text: str, state: str = "") -> ForeignSchedule:
    """`text`: what it has in its hash under this name; `state`: what people have set on its page, which counts more."""
    parsed = _json(text)
    fields: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    cron_rule, cron_options = _rule(fields.get("cron"))
    every_rule, every_options = _rule(fields.get("every"))
    cron, timezone, every, obstacles, remarks = "", "", 0, list[str](), list[str]()
    if cron_rule:
        cron, timezone, obstacles = _cron(cron_rule)
    elif every := _seconds(every_rule):
        remarks.append("Ruby counts the interval from the start of its process; here it fires at multiples since 1970")
    else:
        obstacles.append("its rule cannot be translated")
    options = cron_options if cron_rule else every_options
    for key in options:
        where = remarks if key in ("first_in", "first_at") else obstacles
        where.append(f"its rule has the option {key}, which does not exist here")
    obstacles += _obstacles_of_a_job(fields)
    remarks += _options(key for key in fields if key not in _OF_THE_SCHEDULE)
    set_by_people = _json(state)
    counts = {**fields, **(set_by_people if isinstance(set_by_people, dict) else {})}
    return ForeignSchedule(
        "sidekiq-scheduler",
        name,
        cron_rule or (f"every {every_rule}" if every_rule else simplejson.dumps(fields)),
        cron,
        every,
        timezone,
        str(fields.get("class", "") or name),
        str(fields.get("queue", "") or ""),
        _list(fields.get("args")),
        counts.get("enabled", True) not in (False, None),
        tuple(obstacles),
        tuple(remarks),
    )


def _obstacles_of_a_job(fields: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(fields.get("args"), dict):
        yield "its arguments are keywords, as of ActiveJob"
    if not fields.get("queue"):
        yield "it names no queue: Ruby asks its class, which may be one of ActiveJob"
    if fields.get("include_metadata"):
        yield "its jobs get the time as their last argument: use args of a function, in code"
    if fields.get("rails_env"):
        yield f"it fires only where RAILS_ENV is {fields['rails_env']}"


def _options(keys: Iterator[str]) -> Iterator[str]:
    if found := ", ".join(sorted(keys)):
        yield f"its jobs have options that a section has not: {found}"


def _list(args: Any) -> list[Any]:
    """As both gems do."""
    if args is None:
        return []
    return args if isinstance(args, list) else [args]


def _rule(value: Any) -> tuple[str, list[str]]:
    """The rule itself, and the names of its options, which may stand behind it in a list."""
    rule, *more = value if isinstance(value, list) and value else [value]
    options = [str(key) for extra in more if isinstance(extra, dict) for key in extra]
    return (str(rule) if isinstance(rule, str | int) else ""), options


def _cron(text: str) -> tuple[str, str, list[str]]:
    """The expression, its time zone if it names one, and what is in its way."""
    fields, zone = text.split(), ""
    if len(fields) > 5 and not _field_means_the_same(fields[-1], _FIELDS[-1]):
        zone = fields.pop()
    expression = " ".join(fields)
    if not _means_the_same(fields):
        return "", "", ["its rule cannot be translated"]
    if zone and not _is_zone(zone):
        return expression, "", [f"its time zone {zone} has no name of the time zone database"]
    return expression, zone, []


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return False
    return True


def _means_the_same(fields: list[str]) -> bool:
    """Whether cronsim reads the expression, and fires at the same times as fugit, which both gems use."""
    if len(fields) not in (5, 6):
        return False
    ranges = _FIELDS[-len(fields) :]
    if not all(map(_field_means_the_same, fields, ranges)):
        return False
    day, weekday = fields[-3], fields[-1]
    # Both fire on days of either field. With a star that has a step in one of them, cronsim wants both to fit.
    return "*" in (day, weekday) or not (day.startswith("*") or weekday.startswith("*"))


def _field_means_the_same(field: str, field_range: _Range) -> bool:
    if field.count("#") > 1:  # fugit forgets all but the last one
        return False
    return all(_item_means_the_same(item, field_range) for item in field.lower().split(","))


def _item_means_the_same(item: str, field_range: _Range) -> bool:
    low, high, names = field_range
    if high == 31 and item == "l":
        return True
    if high == 7 and (nth := _NTH_DAY.fullmatch(item)):
        return _value(nth[1], names) in range(low, high + 1)
    found = _ITEM.fullmatch(item)
    if found is None or (found[3] is not None and int(found[3]) < 1):
        return False
    if found[1] is None:
        return True
    begin = _value(found[1], names)
    end = begin if found[2] is None else _value(found[2], names)
    if not low <= begin <= end <= high:  # fugit knows 22-4, and 24 as an hour
        return False
    # fugit forgets the step of 1/2 as weekdays, and of 5/1.
    return found[3] is None or found[2] is not None or (high != 7 and int(found[3]) > 1)


def _value(text: str, names: Mapping[str, int]) -> int:
    """-1 for no value."""
    return int(text) if text.isdigit() else names.get(text, -1)


def _seconds(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    spans = _SPANS.findall(text)
    complete = "".join(number + unit for number, unit in spans) == text
    return sum(int(number) * _SECONDS[unit] for number, unit in spans) if complete else 0


def _json(text: str) -> Any:
    try:
        return simplejson.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
