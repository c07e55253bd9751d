"""The reports of the children of `processes = N`: the health of each, and the jobs that the broker holds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import simplejson

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.core.errors import BrokerUnavailable, error_from_json
from goworkers_py.observe.health_report import SHAPE, HealthReport, merged, past
from goworkers_py.system.parent_link import FAILED, FIGURES, REPORT, STATS

if TYPE_CHECKING:
    from goworkers_py.system.child_process import ChildProcess

log = logging.getLogger(__name__)

STATS_FRESH_S = 30.0


class FleetFigures:
    """The parent's main thread writes; threads of the HTTP port read too."""

    def __init__(self) -> None:
        self._past = merged("", [])  # the counts of the children that have ended
        # Held while a child's counts move to `_past`: a thread of the HTTP port must not see them twice, or not at all.
        self._ending = threading.Lock()
        self._server: tuple[Stats | None, float] = None, 0.0  # and when it came (monotonic)

    def take(self, child: ChildProcess, line: bytes) -> None:
        try:
            if line.startswith(FIGURES):
                child.alike = line.removeprefix(FIGURES).decode() == SHAPE
                if not child.alike:
                    log.warning("%s is of another version: its figures are not shown until this parent restarts", child)
            elif line.startswith(REPORT):
                child.reported_at = time.monotonic()
                if child.alike:
                    report = simplejson.loads(line.removeprefix(REPORT))
                    merged("", [report])  # raises if this is no report
                    child.report = report
            elif line.startswith(FAILED):
                child.error = error_from_json(simplejson.loads(line.removeprefix(FAILED)))
            elif line.startswith(STATS) and child.alike:
                self._server = Stats.of(simplejson.loads(line.removeprefix(STATS))), time.monotonic()
        except Exception:  # bad figures must not stop the parent, nor its children
            log.exception("figures of %s cannot be read; they are left out", child)

    @contextmanager
    def last_word_of(self, child: ChildProcess) -> Iterator[None]:
        """Keeps the counts of an ended child. The caller removes it from the list of children inside the block."""
        with self._ending:
            if child.report is not None:
                self._past = _summed("", [self._past, past(child.report)])
            yield

    def report(self, state: str, children: Sequence[ChildProcess]) -> HealthReport:
        with self._ending:
            reports = [self._past, *(child.says() for child in children)]
        return _summed(state, reports)

    def stats(self) -> Stats:
        """The latest figures of the broker that a child has sent. Raises BrokerUnavailable if they are too old."""
        stats, at = self._server
        if stats is None or time.monotonic() - at > STATS_FRESH_S:
            raise BrokerUnavailable("none of the processes has reached the broker lately")
        return stats


def _summed(state: str, reports: Sequence[HealthReport]) -> HealthReport:
    try:
        return merged(state, list(reports))
    except Exception:  # bad figures must not stop the parent, nor its children
        log.exception("figures cannot be added up")
        return merged(state, [])
