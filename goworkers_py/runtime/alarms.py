"""What concerns jobs whose payloads do not tell it: while it holds, they go through the rungs of the features that look
for it."""

from __future__ import annotations


class Alarms:
    """Each set has the names of features, which are marks of their rungs. A feature adds its name, and takes it away.
    Every worker reads them; each change is one step of C code."""

    __slots__ = ("jobs", "ties")

    def __init__(self) -> None:
        self.jobs: set[str] = set()  # of every job: no job goes into the chain at once
        self.ties: set[str] = set()  # of those that go through rungs anyway

    def sound(self, feature: str, jobs: bool, ties: bool) -> None:
        """From now on, as the two say. `jobs` implies `ties`."""
        for names, sounds in ((self.ties, ties), (self.jobs, jobs)):
            if sounds:
                names.add(feature)
            else:
                names.discard(feature)
