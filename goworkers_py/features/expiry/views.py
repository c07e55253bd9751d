"""The time at which a job expires, on the page of the job."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.web.site.table import FeaturePages
from goworkers_py.wire.message import Message


def _expires(message: Message) -> Sequence[tuple[str, float | None]]:
    return (("Expires", message.expires_at),)


PAGES = FeaturePages(job_times=_expires)
