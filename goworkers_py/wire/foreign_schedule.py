"""Reads the schedules of sidekiq-cron and sidekiq-scheduler, as their gems have written them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import simplejson

from goworkers_py.core.periodic import ForeignSchedule

# An expression of five or six fields, and perhaps a time zone behind it. "every day at noon", which the gem fugit reads
# too, is none.
_CRON = re.compile(
    r"((?:[\d*/,\-LlW#?]|[A-Za-z]{3}\b)+(?: (?:[\d*/,\-LlW#?]|[A-Za-z]{3}\b)+){4,5})(?: ([A-Za-z_/+\-0-9]+))?"
)
_SPANS = re.compile(r"([0-9]{1,9})(w|d|h|m|s)")  # any number of digits would be read anew from each one on
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}


def of_sidekiq_cron(fields: Mapping[str, str]) -> ForeignSchedule:
    """`fields`: the hash of one of its jobs."""
    cron, timezone = _cron(fields.get("cron", ""))
    message = _json(fields.get("message", ""))
    queue = fields.get("queue") or (message.get("queue") if isinstance(message, dict) else None) or "default"
    args = _json(fields.get("args", "")) or []
    return ForeignSchedule(
        "sidekiq-cron",
        fields.get("name", ""),
        str(fields.get("cron", "")),
        cron,
        0,
        timezone,
        fields.get("klass", ""),
        str(queue),
        args if isinstance(args, list) else [args],
        fields.get("status", "enabled") == "enabled",
    )


def of_sidekiq_scheduler(name: str, text: str) -> ForeignSchedule:
    """`text`: what it has in its hash under this name."""
    told = _json(text)
    fields: dict[str, Any] = told if isinstance(told, dict) else {}
    told_cron, told_every = _first(fields.get("cron")), _first(fields.get("every"))
    cron, timezone = _cron(told_cron)
    args = fields.get("args", [])
    rule = told_cron or (f"every {told_every}" if told_every else simplejson.dumps(fields))
    return ForeignSchedule(
        "sidekiq-scheduler",
        name,
        rule,
        cron,
        _seconds(told_every),
        timezone,
        str(fields.get("class", "") or name),
        str(fields.get("queue", "") or "default"),
        args if isinstance(args, list) else [args],
        fields.get("enabled", True) is not False,
    )


def _first(value: Any) -> str:
    """The rule itself, which may stand in a list before its options."""
    value = value[0] if isinstance(value, Sequence) and not isinstance(value, str) and value else value
    return str(value) if isinstance(value, str | int) else ""


def _cron(text: str) -> tuple[str, str]:
    """The expression and its time zone; empty when it is none that cronsim could read."""
    found = _CRON.fullmatch(" ".join(text.split()))
    return (found[1], found[2] or "UTC") if found else ("", "UTC")


def _seconds(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    spans = _SPANS.findall(text)
    complete = "".join(number + unit for number, unit in spans) == text
    return sum(int(number) * _SECONDS[unit] for number, unit in spans) if complete else 0


def _json(text: str) -> Any:
    try:
        return simplejson.loads(text) if text else None
    except ValueError:
        return None
