"""Central configurations: their versions, what changed, who runs with which; back to an older one, delete.

A new text comes by `pyworkers config push`, from where it is kept, and not by a page.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from goworkers_py.admin.filter import counted
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.features.configuration.admin import CentralConfiguration
from goworkers_py.features.configuration.stored_config import StoredConfig, has_taken
from goworkers_py.web.http.errors import Refused
from goworkers_py.web.http.params import Param, whole_from
from goworkers_py.web.site.hiding import MASK, Hiding
from goworkers_py.web.site.sorting import Columns
from goworkers_py.web.site.table import Action, ActionDone, Data, FeaturePages, ProcessPart, View
from goworkers_py.web.site.visit import Visit
from goworkers_py.web.views.shared import fleet_processes

NAME = Param("name", "name of the configuration", needed=True)
COLUMNS = Columns("name", "version", "at", "by", "processes", "behind")

AGE_S = 5.0
# Lines. The time for a comparison grows with their square: a stranger's text of 80,000 lines would take a minute.
MOST_COMPARED = 5_000
# The name of an option up to its sign, also of one that was made a comment.
_OPTION = re.compile(r"[\s#;]*([^\s=:\[#;][^=:]*)[=:]").match


def listed(visit: Visit) -> Data:
    """The newest version of each central configuration, and how many processes run with it."""
    try:
        found = visit.snapshot("configurations", AGE_S, _configurations(visit).newest)
    except ConfigError:
        return {"configurations": [], "offered": False}
    rows = [_fields(config) | _used(visit, config) for config in found]
    return {"configurations": COLUMNS.sorted(rows, visit.args["sort"]), "offered": True}


def details(visit: Visit) -> Data:
    """One configuration: its versions, the text of one of them, and what differs from the version before."""
    versions = _versions(visit)
    by_number = {config.version: config for config in versions}
    shown = by_number.get(visit.args["version"] or max(by_number))
    if shown is None:
        raise Refused(404, f"{visit.args['name']} has no version {visit.args['version']}")
    before = [config for config in versions if config.version < shown.version]
    text = masked(shown.text, visit.hiding)
    diff: list[str] = []
    if before:
        old = masked(before[-1].text, visit.hiding)
        diff = _diff(old.splitlines(), text.splitlines(), str(before[-1]), str(shown))
    processes = [
        {"identity": process.identity, "started": process.config.started, "applied": process.config.applied,
         "waiting": process.config.waiting}
        for process in fleet_processes(visit) if process.config is not None and process.config.name == shown.name
    ]  # fmt: skip
    return {
        "configuration": _fields(shown), "text": text, "diff": diff,
        "newest": shown.version == max(by_number), "processes": processes,
        "versions": [_fields(config) for config in reversed(versions)],
    }  # fmt: skip


def _diff(old: list[str], new: list[str], of_old: str, of_new: str) -> list[str]:
    if max(len(old), len(new)) > MOST_COMPARED:
        return [f"not compared, because a text has more than {MOST_COMPARED:,} lines"]
    return [*difflib.unified_diff(old, new, of_old, of_new, lineterm="")]


def _versions(visit: Visit) -> Sequence[StoredConfig]:
    try:
        return _configurations(visit).versions(visit.args["name"])
    except (ArgumentError, ConfigError) as error:
        raise Refused(404, str(error)) from None


def _fields(stored: StoredConfig) -> dict[str, object]:
    return {name: value for name, value in stored.as_dict().items() if name != "text"}


def _used(visit: Visit, stored: StoredConfig) -> dict[str, object]:
    used = [
        process.config
        for process in fleet_processes(visit)
        if process.config is not None and process.config.name == stored.name
    ]
    behind = sum(not has_taken(config, stored) or bool(config.waiting) for config in used)
    return {"processes": len(used), "behind": behind}


def masked(text: str, hiding: Hiding) -> str:
    """The text without the values of options whose names are hidden, also where they go on in further lines."""
    return "\n".join(_masked_lines(text, hiding))


def _masked_lines(text: str, hiding: Hiding) -> Iterator[str]:
    hidden = False
    for line in text.splitlines():
        if hidden and (line[:1].isspace() or not line):
            continue  # the value goes on
        option = _OPTION(line)
        hidden = option is not None and hiding.hides(option[1])
        yield f"{option[0]} {MASK}" if hidden and option is not None else line


def _rollback(visit: Visit) -> ActionDone:
    """Goes back to a version: its text is stored again, as the newest one. Without a number, to the one before."""
    now = _configurations(visit).rollback(visit.args["name"], visit.args["version"])
    link = visit.link("/configuration", name=now.name)
    return ActionDone(
        f"{now} is stored, with the text of version {now.of}", 1, to=link, result={"version": now.version}
    )


def _delete(visit: Visit) -> ActionDone:
    """Deletes all versions of a configuration. Processes that run go on as they are."""
    name = visit.args["name"]
    gone = _configurations(visit).delete(name)
    said = f"configuration {name} is deleted" if gone else f"there is no configuration {name}"
    return ActionDone(said, int(gone), to=visit.link("/configurations"))


def _ask_rollback(visit: Visit) -> str:
    version = visit.args["version"] or "the one before"
    return f"Let all processes take version {version} of {visit.args['name']}? It becomes the newest one."


def _ask_delete(visit: Visit) -> str:
    versions = _versions(visit)
    count = counted(len(versions), "version", "versions")
    return f"Delete {visit.args['name']} with its {count}? No process can start from it then."


def _configurations(visit: Visit) -> CentralConfiguration:
    configurations: CentralConfiguration = visit.inspector.configurations
    return configurations


_VERSION = Param("version", "number of a version; without one, the newest", whole_from(1))
_VIEWS = [
    View("/configurations", "Configurations", "configurations.html", listed, (COLUMNS.param,), menu="Configurations"),
    View("/configuration", "Configuration", "configuration.html", details, (NAME, _VERSION), "/configurations"),
]
_ACTIONS = [
    Action(
        "/configuration/rollback", _rollback,
        (NAME, Param("version", "the version to go back to; without one, the one before", whole_from(1))),
        _ask_rollback, result={"version": {"type": "integer"}},
    ),
    Action("/configuration/delete", _delete, (NAME,), _ask_delete),
]  # fmt: skip
PAGES = FeaturePages(_VIEWS, _ACTIONS, of_processes=ProcessPart(rows="process_configuration.html"))
