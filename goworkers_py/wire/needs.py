"""The field `pyworkers` of a job: the features that its worker must support, in a fleet of mixed releases.

A job that uses a feature which older releases do not know has {"v": 1, "needs": ["..."]}. Only pyworkers reads the
field, and only since 0.2.0. `policy.needs` decides what a worker does with such a job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

FIELD = "pyworkers"
V = 1
# The needs of the engine. Those of the features are in their entries, and `policy.known_needs` has all.
KWARGS = "kwargs"  # the job has keyword arguments
TYPED = "typed"  # the job's code gets values of the types of its hints, not the JSON that stands for them
# Each with the first release that knows it.
OF_ENGINE = dict.fromkeys((KWARGS, TYPED), "0.4.0")

# Payloads come from strangers: the text of each need is cut to this length.
LONGEST_NEED = 100


def field_of(needs: Collection[str]) -> dict[str, Any]:
    """The value of the payload's field."""
    return {"v": V, "needs": sorted(needs)}


def is_version(stored: Any, version: int) -> bool:
    """True is equal to 1, and is no version."""
    return stored == version and stored is not True


def part_of(fields: Mapping[str, Any], word: str) -> Any:
    """The part of a job's field `pyworkers` under this word; None for a part that this release cannot read."""
    value = fields.get(FIELD)
    if not isinstance(value, dict) or (version := value.get("v")) != V or version is True:  # as `is_version`
        return None
    return value.get(word)


def without_member(value: Any, member: str) -> Any:
    """The value of the payload's field without this member, and without the need of the same name."""
    if not isinstance(value, dict) or member not in value:
        return value
    needs = value.get("needs")
    kept = [need for need in needs if need != member] if isinstance(needs, list) else needs
    return {**{name: part for name, part in value.items() if name != member}, "needs": kept}


def lacking(value: Any, speaks: Collection[str]) -> list[str]:
    """The needs in a payload's field that are not in `speaks`. A value that this release cannot read is such a need."""
    if not isinstance(value, dict):
        return [f"a field `{FIELD}` of another shape"]
    if (version := value.get("v")) != V or version is True:  # as `is_version`
        return [f"version {_brief(value.get('v'))} of the field `{FIELD}`"]
    wanted = value.get("needs")
    if not isinstance(wanted, list):
        return [f"needs of another shape: {_brief(wanted)}"]
    return [_brief(need) for need in wanted if not isinstance(need, str) or need not in speaks]


def _brief(value: Any) -> str:
    """A short text for people of any value that a stranger wrote."""
    if isinstance(value, int | float) and abs(value) < 1_000:
        return f"{value:g}"
    text = value[:LONGEST_NEED] if isinstance(value, str) else f"of type {type(value).__name__}"
    return text.encode("unicode_escape").decode()[:LONGEST_NEED]
