"""Groups: jobs that wait to be aggregated. A push puts its job into a group, see `GroupMembership`; so does the effect
of a worker that meets a member in a queue.

A member is at every instant in one place. It waits in its open group. When the group is due, `flush` makes the members
a set and pushes the job that aggregates the set, in one step. The end of that job deletes the set and pushes the job
that runs in the members' place, in one step too: see `EndSet`. So every member is aggregated exactly once, wherever a
process dies.

A group is due by its settings, see `GroupSettings`. Those of its last push hold, but for those that people have set for
this group with `configure`. A group that has its `max_size` becomes a set at once, in the step of the push.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from goworkers_py.features.groups.group import DueGroups, Group, GroupEntry, OwnSettings


class Groups(Protocol):
    """Threads share it."""

    def due(self, job_class: str, limit: int, passed: int = 0) -> DueGroups:
        """Returns up to `limit` groups and sets of a class that are due by the broker's clock, the earliest
        first, after the first `passed` ones."""

    def flush(self, group: Group, into: Group, payload: bytes) -> int:
        """In one step: the members of an open group become the set `into`, and `payload`, the job that aggregates them,
        comes into the queue of the group. A set that is due stays as it is: then `into` is `group`. Returns how many
        members the set has. 0 and nothing is done when the group is not due any more: another process was quicker."""

    def members(self, group: Group, first: int, count: int) -> list[bytes]:
        """Returns members of a group or a set, those that joined first first, after the first `first` ones."""

    # --- for people

    def entries(self, job_class: str = "") -> Iterator[GroupEntry]:
        """Yields the groups and the sets, of a class or of all classes, and the groups with settings of their own."""

    def entry(self, group: Group) -> GroupEntry | None:
        """Returns a group or a set; None when there is none."""

    def make_due(self, group: Group) -> bool:
        """Lets an open group be flushed at once. Of a set, another aggregation job is pushed: for a set whose job was
        deleted. False when it has no members."""

    def configure(self, group: Group, own: OwnSettings) -> None:
        """Gives an open group settings of its own in place of those that it has; with none, it has none any more. They
        hold at once, and last while the group is empty."""

    def delete(self, group: Group) -> int:
        """Deletes the members of a group or a set. Returns how many. Their ties end as for any deleted job."""

    def take_out(self, group: Group, member: bytes, reason: str) -> bool:
        """Deletes one member of an open group or a set. False when it is not there. Its ties end, and its record says
        `reason`."""
