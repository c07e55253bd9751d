"""Groups of jobs that wait to be aggregated: members, when they are due; flush, settings, delete."""

from __future__ import annotations

from goworkers_py.admin.filter import counted
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupEntry, OwnSettings
from goworkers_py.web.http.errors import bad_request
from goworkers_py.web.http.params import SPAN, Param, whole_from
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, ActionDone, Data, FeaturePages, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.offered import MOST, entries
from goworkers_py.web.views.rows import begin_reading, few, held, row_of

CLASS = Param("class", "only groups of this class")
OPEN_GROUP = (
    Param("queue", "queue of the group", needed=True),
    Param("class", "class of its jobs", needed=True),
    Param("name", "name of the group", needed=True),
)
GROUP = (
    *OPEN_GROUP,
    Param("set", "members that are aggregated together; empty: the open group"),
)
MEMBERS = 50

COLUMNS = Columns("name", "job_class", "queue", "size", "first", "due")


def listed(visit: Visit) -> Data:
    """Groups, those that are due first. One with a set has members that are aggregated just now, or whose aggregation
    job waits, is retried or is dead."""
    job_class = visit.args["class"] or ""
    found = entries(visit, f"groups {job_class}", Groups, lambda: visit.inspector.groups(job_class))
    return {
        "groups": COLUMNS.sorted([_fields(entry) for entry in found], visit.args["sort"]),
        "most": MOST,
        "offered": visit.inspector.has(Groups),
    }


def details(visit: Visit) -> Data:
    """One group: its settings, and the members that joined first."""
    group = _group(visit)
    entry = visit.inspector.group(group) or GroupEntry(group, 0)
    begin_reading(visit)
    members = [row_of(job, visit.hiding) for job in held(visit, few(visit.inspector.members(group, MEMBERS)))]
    return {"group": _fields(entry), "members": members}


def _fields(entry: GroupEntry) -> dict[str, object]:
    return {
        **entry.group._asdict(), "size": entry.size, "first": entry.first, "due": entry.due,
        "settings": entry.settings._asdict(), "own": entry.own._asdict(), "set_by_hand": entry.own != OwnSettings(),
    }  # fmt: skip


def _group(visit: Visit) -> Group:
    return Group(visit.args["queue"], visit.args["class"], visit.args["name"], visit.args.get("set") or "")


def _flush(visit: Visit) -> ActionDone:
    """Lets a group be aggregated at once; of a set, pushes the job that aggregates it once more."""
    group = _group(visit)
    done = visit.inspector.flush_group(group)
    return ActionDone(f"group {group.name} " + ("is due now" if done else "has no members"), int(done))


def _settings(visit: Visit) -> ActionDone:
    """Gives a group settings of its own, in place of those of the code. A value that is left out stays as it was."""
    group, args = _group(visit), visit.args
    given = {"grace_s": args["grace"], "max_delay_s": args["max_delay"], "max_size": args["max_size"]}
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        raise bad_request("give grace, max_delay or max_size")
    visit.inspector.set_group(group, _own(visit, group)._replace(**given))
    return ActionDone(f"group {group.name} has settings of its own", 1)


def _reset(visit: Visit) -> ActionDone:
    """The settings of the code hold again for a group."""
    group = _group(visit)
    if _own(visit, group) == OwnSettings():
        return ActionDone(f"group {group.name} had nothing set", 0)
    visit.inspector.set_group(group, OwnSettings())
    return ActionDone(f"group {group.name} has the settings of the code", 1)


def _own(visit: Visit, group: Group) -> OwnSettings:
    entry = visit.inspector.group(group)
    return OwnSettings() if entry is None else entry.own


def _delete(visit: Visit) -> ActionDone:
    """Deletes all members of a group."""
    gone = visit.inspector.delete_group(_group(visit))
    return ActionDone(f"{counted(gone)} deleted", gone, to=visit.link("/groups"))


def _ask_delete(visit: Visit) -> str:
    entry = visit.inspector.group(_group(visit))
    return f"Delete {counted(entry.size if entry else 0)} of group {visit.args['name']} for good?"


PAGES = FeaturePages(
    views=[
        View("/groups", "Groups", "groups.html", listed, (CLASS, COLUMNS.param), menu="Groups"),
        View("/group", "Group", "group.html", details, GROUP, "/groups"),
    ],
    actions=[
        Action("/group/flush", _flush, GROUP),
        Action(
            "/group/set",
            _settings,
            (
                *OPEN_GROUP,
                Param("grace", "so long after its last member", SPAN),
                Param("max_delay", "so long after its first member; 0: no limit", SPAN),
                Param("max_size", "number of members; 0: no limit", whole_from(0)),
            ),
        ),
        Action("/group/reset", _reset, OPEN_GROUP),
        Action("/group/delete", _delete, GROUP, _ask_delete),
    ],
)
