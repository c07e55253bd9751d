"""The program whose jobs the pages show: what they need of an App."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from goworkers_py.admin.inspector import Inspector
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.options import Config
from goworkers_py.policy.our_work import OurWork


class PagePart(Protocol):
    """A partition."""

    @property
    def inspector(self) -> Inspector: ...

    def result(self, jid: str, timeout: float | None = None) -> Any: ...

    def checked_push(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Callable[[], str | None]: ...


class Host(PagePart, Protocol):
    @property
    def config(self) -> Config: ...

    def partition(self, name: str = "") -> PagePart: ...

    def our_work(self) -> OurWork | None:
        """The queues and classes of this program; None if its code is not known here."""
