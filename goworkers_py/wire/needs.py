"""The field `pyworkers` of a job: what the job needs of the worker that runs it, in a fleet whose releases are mixed.

A job that uses a feature which an older release does not know has {"v": 1, "needs": ["..."]}. Only pyworkers reads the
field, and only since 0.2.0. What a worker does about it is decided in `policy.needs`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

FIELD = "pyworkers"
V = 1
# The features that a job may need and that this release knows. None of those that 0.1.0 did not know needs a worker.
SPEAKS: frozenset[str] = frozenset()

# Needs come from strangers' payloads: each is cut to this length.
LONGEST_NEED = 100


def field_of(needs: Collection[str]) -> dict[str, Any]:
    """The value of the payload's field."""
    return {"v": V, "needs": sorted(needs)}


def lacking(told: Any, speaks: Collection[str]) -> list[str]:
    """What of a payload's field this release lacks. What it cannot read is something that it lacks."""
    if not isinstance(told, dict):
        return [f"a field `{FIELD}` of another shape"]
    if told.get("v") != V or isinstance(told["v"], bool):
        return [f"version {_brief(told.get('v'))} of the field `{FIELD}`"]
    wanted = told.get("needs")
    if not isinstance(wanted, list):
        return [f"needs of another shape: {_brief(wanted)}"]
    return [_brief(need) for need in wanted if not isinstance(need, str) or need not in speaks]


def _brief(told: Any) -> str:
    """For people, whatever a stranger wrote."""
    if isinstance(told, int | float) and abs(told) < 1_000:
        return f"{told:g}"
    text = told[:LONGEST_NEED] if isinstance(told, str) else f"of type {type(told).__name__}"
    return text.encode("unicode_escape").decode()[:LONGEST_NEED]
