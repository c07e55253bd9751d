"""The owner of a line of parked jobs, as people see it."""

from __future__ import annotations

from goworkers_py.core.values import NamedTuple


class LineOwner(NamedTuple):
    """Lets the next jobs of the line go when there is room."""

    name: str  # "limit stripe"
    of: str  # under which figures count its jobs: "stripe"
    command: str  # shows who has the places: "pyworkers limits show stripe"
