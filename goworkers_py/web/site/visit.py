"""One request as the views see it: whose jobs, with which parameters and rights, and how links are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import urlencode

from goworkers_py.admin.inspector import Inspector
from goworkers_py.core.errors import BrokerUnavailable, ConfigError
from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.web.http.errors import Refused, bad_request
from goworkers_py.web.http.request import Request
from goworkers_py.web.site.access import Grant
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.web.site.host import Host, PagePart
from goworkers_py.web.site.snapshots import PageSnapshot, Snapshots
from goworkers_py.web.site.trends import Trends

T = TypeVar("T")

PARTITION = "partition"  # a parameter of every page
LONGEST_WAIT_S, PANEL_WAIT_S = 6.0, 0.1


class SharedVisits(NamedTuple):
    """The parts that all visits of a process share."""

    snapshots: Snapshots
    trends: Trends


@dataclass(slots=True)
class Trace:
    """Tells of a change while it is made, for the log and the audit, where it may fail in the middle."""

    scope: str = ""  # what it is about, such as `all of dead`
    count: int | None = None  # how many things it has changed until now
    change: str = ""  # the same in all requests of one change


class Visit:
    """Used by one thread."""

    def __init__(self, request: Request, host: Host, grant: Grant, shared: SharedVisits, hiding: Hiding) -> None:
        self.request = request
        self.host = host
        self.grant = grant
        self.hiding = hiding
        self.trends = shared.trends
        self._snapshots = shared.snapshots
        self.args: Mapping[str, Any] = {}  # the checked parameters
        self.notes: list[str] = []  # shown above the page
        self.trace = Trace()

    @cached_property
    def partition(self) -> str:
        """Its name as people write it; empty for the main one."""
        given = self.request.query.get(PARTITION)
        if not given and self.request.changes:
            with suppress(Refused):  # of a body that cannot be read; its reader says so
                given = self.request.form.get(PARTITION)
        name = (given or [""])[-1]
        if name is not None and not isinstance(name, str):
            raise bad_request(f"{PARTITION}: must be a text")
        return name or ""

    @cached_property
    def part(self) -> PagePart:
        """The partition, or the host itself for the main one."""
        if not self.partition:
            return self.host
        try:
            return self.host.partition(self.partition)
        except ConfigError as error:
            raise Refused(404, str(error)) from None

    @property
    def inspector(self) -> Inspector:
        return self.part.inspector

    def snapshot(self, name: str, max_age_s: float, compute: Callable[[], T]) -> T:
        """A value that pages of this partition share for a moment. Raises what the computation raises."""
        found = self._snapshots.get(f"{self.partition}/{name}", max_age_s, compute, LONGEST_WAIT_S)
        if found.value is None:
            raise found.error or BrokerUnavailable(f"no answer for {LONGEST_WAIT_S:g} s")
        return found.value

    def panel(
        self, name: str, max_age_s: float, compute: Callable[[], T], wait_s: float | None = None
    ) -> PageSnapshot[T]:
        """The content of a part of a page, with its age: the page does not wait for it, and is shown without it."""
        wait_s = PANEL_WAIT_S if wait_s is None else wait_s
        return self._snapshots.get(f"{self.partition}/{name}", max_age_s, compute, wait_s)

    def now_new(self) -> None:
        """Something was changed: the next pages show it."""
        self._snapshots.forget()

    def link(self, path: str, **query: Any) -> str:
        """The address of a page of the same partition. Parameters that are empty are left out."""
        return f"{self.request.root}{path}{_query({PARTITION: self.partition, **query})}"

    def here(self, **changes: Any) -> str:
        """The address of this page with some other parameters."""
        return f"{self.request.root}{self.request.path}{_query({**self._asked, **changes})}"

    @property
    def as_json(self) -> str:
        """The address of the JSON form of this page."""
        return f"{self.request.root}/api{self.request.path}{_query(self._asked)}"

    @property
    def _asked(self) -> dict[str, Any]:
        return {name: list(values) if len(values) > 1 else values[0] for name, values in self.request.query.items()}


def _query(parameters: Mapping[str, Any]) -> str:
    given = {name: value for name, value in parameters.items() if value not in ("", None, [], False)}
    text = urlencode(
        {name: "yes" if value is True else value for name, value in given.items()}, doseq=True, errors="surrogatepass"
    )
    return f"?{text}" if text else ""
