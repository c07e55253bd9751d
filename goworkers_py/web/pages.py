"""What the HTTP port shows.

/stats     go-workers' JSON: what waits on the server, and where
/metrics   the figures of this process, or of all of `processes`, for Prometheus
/live      200, or 503 where a loop stands still: then the process should be started again
/ready     200 while jobs are fetched, else 503 and why not: it starts or drains, or the server is out of reach
"""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.errors import BrokerError
from goworkers_py.inspect.stats import Stats, for_go_workers
from goworkers_py.reports import Report, in_words, not_live, not_ready
from goworkers_py.web.metrics import CONTENT_TYPE, exposition
from goworkers_py.web.server import Answer, Page, as_json


def pages(report: Callable[[], Report], stats: Callable[[], Stats]) -> dict[str, Page]:
    """`stats` raises BrokerError where the server cannot be asked."""

    def metrics() -> Answer:
        try:
            on_server = stats()
        except BrokerError:
            on_server = None  # our own figures matter most during an outage
        return Answer(200, exposition(report(), on_server), CONTENT_TYPE)

    def probe(objection: Callable[[Report], str]) -> Page:
        def answer() -> Answer:
            told = report()
            why = objection(told)
            return Answer(503 if why else 200, f"{why or in_words(told)}\n")

        return answer

    return {
        "/stats": lambda: as_json(for_go_workers(stats())),
        "/metrics": metrics,
        "/live": probe(not_live),
        "/ready": probe(not_ready),
    }
