"""The table of everything that the application offers: views show data, actions change something.

A view is a page and a JSON answer under `/api`; an action takes a form and, under `/api`, JSON. The OpenAPI file is
made from the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from goworkers_py.core.values import dataclass
from goworkers_py.web.http.params import Param
from goworkers_py.web.http.response import Response
from goworkers_py.web.site.access import ACT

if TYPE_CHECKING:
    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.brokers.contracts.fleet import Process
    from goworkers_py.config.options import Config
    from goworkers_py.web.site.visit import Visit
    from goworkers_py.wire.message import Message

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    path: str  # "/queues"
    title: str
    template: str  # empty: it has no page, only JSON
    data: Callable[[Visit], Data | Response]  # its docstring describes the view. A Response is sent as it is
    query: Sequence[Param] = ()
    section: str = ""  # the path of the view in the menu to which it belongs; empty: its own
    # Other answers than the data, by status, and what each says.
    others: Mapping[int, str] = field(default_factory=dict)
    menu: str = ""  # the word for it in the menu; empty: it is not there
    tag: str = ""  # in the OpenAPI file; empty: the first part of its path


@dataclass(frozen=True, slots=True)
class GoOn:
    """An action that changes many jobs makes some of the changes at each request, and is asked again."""

    fields: Data  # of the next request
    looked_at: int  # until now
    total: int  # about so many are to be looked at


@dataclass(frozen=True, slots=True)
class ActionDone:
    """The result of an action."""

    said: str  # a sentence for people
    count: int | None = None  # how many things this request has changed
    to: str = ""  # where to go; empty: back
    result: Data = field(default_factory=dict)  # for programs
    problems: Sequence[str] = ()
    go_on: GoOn | None = None
    page: tuple[str, Data] | None = None  # a template and its data, to be shown instead of going anywhere
    # For the log and the audit, where `said` has what must not be there: secrets, or numbers that the client has sent.
    noted: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    path: str  # "/queue/pause"
    run: Callable[[Visit], ActionDone]  # its docstring describes the action
    fields: Sequence[Param] = ()
    # Asks before a change that cannot be taken back: a question, or nothing when no question is needed.
    question: Callable[[Visit], str] | None = None
    name: str = ""  # for the audit; empty: made of the path
    # Programs do this all the time. Such changes, and those of somebody who may do nothing else, are logged, and not
    # added to the audit list: they would leave no room for the other changes, or wash them away.
    routine: bool = False
    needs: str = ACT  # the role
    result: Mapping[str, Data] = field(default_factory=dict)  # the schemas of what `Done.result` holds

    @property
    def audit_name(self) -> str:
        return self.name or self.path.strip("/").replace("/", " ")


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found by a part of its name."""

    name: str
    kind: str  # of the thing that it shows, for people
    to: str


def _no_hits(visit: Visit, text: str) -> Iterable[Hit]:
    return ()


def _no_facts(message: Message | None, line: str) -> Data:
    return {}


def _no_times(message: Message) -> Sequence[tuple[str, float | None]]:
    return ()


def _no_facts_of_process(process: Process) -> Data:
    return {}


@dataclass(frozen=True, slots=True)
class ProcessPart:
    """A part of the page of a process. Its templates have the fields of that page, and these facts."""

    facts: Callable[[Process], Data] = _no_facts_of_process
    tools: str = ""  # the template of its buttons
    rows: str = ""  # that of rows among the facts
    sections: str = ""  # and that of sections


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column in the table of partitions."""

    title: str
    sort: str  # the field of a row by which the table is sorted
    template: str  # of a cell: it has the row as `one`
    # The fields of a row, by the inspector and the configuration of the partition. It may ask the broker.
    look: Callable[[Inspector, Config], Data]
    unknown: Data  # these fields while the broker has not answered


@dataclass(frozen=True, slots=True)
class FeaturePages:
    """The part of a feature in the pages. Its templates are in the folder `templates` of the feature."""

    views: Sequence[View] = ()
    actions: Sequence[Action] = ()
    # Data for the page of a job, from its message (None: unreadable) and the line in which it is parked. The message is
    # from anywhere: each field may have any type.
    job_facts: Callable[[Message | None, str], Data] = _no_facts
    job_rows: str = ""  # the template that shows these facts
    job_tools: str = ""  # the template of buttons on the page of a job. It has the fields of that page
    # Buttons for selected jobs that run: the path of an action that takes the fields of `running_jobs`, and the label.
    running_tools: Sequence[tuple[str, str]] = ()
    # Times on the page of a job, with their labels; None: not shown.
    job_times: Callable[[Message], Sequence[tuple[str, float | None]]] = _no_times
    shown_fields: frozenset[str] = frozenset()  # of the payload: they are not among its other fields then
    finds: Callable[[Visit, str], Iterable[Hit]] = _no_hits  # the pages whose names contain this text, see `find`
    of_processes: ProcessPart | None = None
    of_partitions: Sequence[PartitionColumn] = ()


class RowTable:
    """All views and actions, by path."""

    def __init__(self, views: Iterable[View], actions: Iterable[Action]) -> None:
        self.views = {view.path: view for view in views}
        self.actions = {action.path: action for action in actions}
        self.menu = [view for view in self.views.values() if view.menu]
