"""A schedule of a periodic job as JSON, and what people have changed of one.

cron, timezone    when it fires; or
every             every so many seconds
class, queue      of its jobs
args              as JSON, or the name of the function that makes them
catch_up, overlap see docs/periodic-jobs.md
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.features.periodic.schedule import Rule, Schedule
from goworkers_py.wire import payload

DIGITS = 16


def schedule(name: str, rule: Rule, fields: Mapping[str, Any]) -> Schedule:
    """`fields`: those beside the fields of the rule."""
    text = payload.write({**rule_fields(rule), **fields})
    return Schedule(name, rule, text, hashlib.sha256(text).hexdigest()[:DIGITS])


def rule_fields(rule: Rule) -> dict[str, Any]:
    return {"cron": rule.cron, "timezone": rule.timezone} if rule.cron else {"every": rule.every}


def fields_of(text: bytes) -> dict[str, Any]:
    """The fields of a schedule or an override; none where it cannot be read."""
    try:
        return payload.read(text) if text else {}
    except UnreadablePayload:
        return {}


def rule_of(fields: Mapping[str, Any]) -> Rule | None:
    """The rule among these fields; None where they have none that can be read."""
    cron, every, timezone = fields.get("cron"), fields.get("every"), fields.get("timezone", "UTC")
    if isinstance(cron, str) and cron and isinstance(timezone, str):
        return Rule(cron, 0, timezone)
    if isinstance(every, int) and not isinstance(every, bool) and every >= 1:
        return Rule(every=every)
    return None


def args_of(fields: Mapping[str, Any]) -> list[Any] | None:
    args = fields.get("args")
    return args if isinstance(args, list) else None
