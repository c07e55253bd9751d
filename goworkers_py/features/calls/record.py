"""Calls, answers and reports as JSON.

A call:    {"v": 1, "id": ..., "name": ..., "args": [...], "to": {"identities": [...], "tag": ..., "queue": ...},
            "by": who gave it, "life_s": ...}; `to` has `partition` too where the target names one
An answer: {"v": 1, "identity": ..., "value": ...} or {"v": 1, "identity": ..., "error": ...}; with `"here": false`
           beside the error where the process lacks what the call names
A report:  {"v": 1, "name": ..., "identity": ..., "body": {...}}
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import simplejson

from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.calls.call import LONGEST_LIFE_S, Answer, Call, Report, Target
from goworkers_py.wire.needs import is_version

V = 1
_TARGET = {"identities", "tag", "queue", "partition"}
# Of the arguments of a call and of the body of a report; and of the value of an answer, which may be a dump of stacks.
LONGEST_ARGUMENTS, LONGEST_VALUE = 8_192, 1_000_000


def json_text(value: Any, what: str, longest: int) -> str:
    """Raises ArgumentError if the value is no JSON, or is longer than `longest` bytes."""
    try:
        text = simplejson.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"{what} must be JSON: {error}") from None
    if len(text) > longest:
        raise ArgumentError(f"{what} must have at most {longest:,} bytes as JSON, has {len(text):,}")
    return text


def written_call(call: Call) -> str:
    target = call.target
    to = {"identities": list(target.identities), "tag": target.tag, "queue": target.queue}
    if target.partition:  # a process that does not know this field does not obey a call that has it
        to["partition"] = target.partition
    json_text(list(call.arguments), f"the arguments of {call.name}", LONGEST_ARGUMENTS)
    record = {"v": V, "id": call.id, "name": call.name, "args": list(call.arguments), "to": to, "by": call.asker}
    return simplejson.dumps({**record, "life_s": call.life_s})


def read_call(raw: bytes) -> Call | None:
    """None for what is no call that this release can read."""
    with suppress(Exception):  # other programs may write there too
        record = simplejson.loads(raw)
        to = record["to"]
        identities = tuple(str(identity) for identity in to.get("identities", ()))
        target = Target(identities, *(str(to.get(name, "")) for name in ("tag", "queue", "partition")))
        life_s = min(float(record["life_s"]), LONGEST_LIFE_S)
        # A target with a part that this release does not know may leave this process out.
        if is_version(record["v"], V) and set(to) <= _TARGET and isinstance(record["args"], list):
            return Call(str(record["id"]), str(record["name"]), record["args"], target, str(record["by"]), life_s)
    return None


def living_call(raw: bytes, age_s: float) -> Call | None:
    """The call with what is left of its life. None for one that has expired, too."""
    call = read_call(raw)
    left_s = 0.0 if call is None else call.life_s - max(0.0, age_s)
    return None if call is None or left_s < 0 else replace(call, life_s=left_s)


def written_answer(answer: Answer) -> str:
    record: dict[str, Any] = {"v": V, "identity": answer.identity}
    if answer.ok:
        return simplejson.dumps({**record, "value": answer.value})
    return simplejson.dumps({**record, "error": answer.error, **({} if answer.here else {"here": False})})


def read_answer(raw: bytes) -> Answer | None:
    with suppress(Exception):
        record = simplejson.loads(raw)
        if is_version(record["v"], V):
            error, here = str(record.get("error", "")), record.get("here") is not False
            return Answer(str(record["identity"]), record.get("value"), error, here)
    return None


def first_of_each(answers: list[Answer | None]) -> list[Answer]:
    """A process whose reply was lost answers again."""
    found: dict[str, Answer] = {}
    for answer in answers:
        if answer is not None:
            found.setdefault(answer.identity, answer)
    return list(found.values())


def written_report(name: str, identity: str, body: str) -> str:
    """`body` is JSON."""
    return f'{{"v":{V},"name":{simplejson.dumps(name)},"identity":{simplejson.dumps(identity)},"body":{body}}}'


def read_report(raw: bytes, position: str, at: float) -> Report | None:
    with suppress(Exception):
        record = simplejson.loads(raw)
        if is_version(record["v"], V) and isinstance(record["body"], dict):
            return Report(position, str(record["name"]), str(record["identity"]), at, record["body"])
    return None
