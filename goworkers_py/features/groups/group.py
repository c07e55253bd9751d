"""A group: jobs of one class and queue that wait to be aggregated, and run as one job then."""

from __future__ import annotations

from goworkers_py.core.values import NamedTuple, dataclass

GRACE_S = 60.0
MOST_FOR_FIGURES = 10_000  # groups and sets: a fleet may have a million


class Group(NamedTuple):
    """Where members wait. Without `set`: the open group, which takes members. With it: a set, whose members are
    aggregated together; none joins it any more."""

    queue: str
    job_class: str
    name: str
    set: str = ""

    @property
    def open(self) -> Group:
        return self._replace(set="")


class GroupSettings(NamedTuple):
    """When an open group is flushed. 0: without this limit."""

    grace_s: float = GRACE_S  # so long after its last member
    max_delay_s: float = 0.0  # at most so long after its first member
    max_size: int = 0  # with so many members

    def due(self, first: float, last: float, size: int) -> float:
        """`first` and `last`: when these members joined."""
        if self.max_size and size >= self.max_size:
            return last
        due = last + self.grace_s
        return min(due, first + self.max_delay_s) if self.max_delay_s else due


class GroupMembership(NamedTuple):
    """A push puts its job into this group, instead of its queue."""

    group: Group
    settings: GroupSettings = GroupSettings()

    @property
    def word(self) -> str:
        return "group"

    @property
    def without_grace(self) -> GroupMembership:
        """The group is flushed at once."""
        return self._replace(settings=self.settings._replace(grace_s=0.0))


class OwnSettings(NamedTuple):
    """The settings of one group that people have set. None: those of its members hold."""

    grace_s: float | None = None
    max_delay_s: float | None = None
    max_size: int | None = None

    def over(self, settings: GroupSettings) -> GroupSettings:
        given = {name: value for name, value in self._asdict().items() if value is not None}
        return settings._replace(**given)


DEFAULT_SETTINGS, NO_OWN_SETTINGS = GroupSettings(), OwnSettings()


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group or a set, as people see it."""

    group: Group
    size: int
    settings: GroupSettings = DEFAULT_SETTINGS
    own: OwnSettings = NO_OWN_SETTINGS
    first: float | None = None  # when its first member joined; None of a set, and of a group without members
    due: float | None = None  # when it is flushed; None: its aggregation job was pushed, or it has no members


class DueGroups(NamedTuple):
    groups: list[Group]
    next_in_s: float | None  # seconds until the next one is due; None: no other one waits


@dataclass(frozen=True)
class GroupFigures:
    """The fields of `Stats` that are of groups."""

    groups: int = 0  # of jobs that wait to be aggregated
    grouped: int = 0  # their members
    oldest_grouped_s: int = 0  # how long the first of these has waited
