"""What the HTTP port shows.

/stats     go-workers' JSON: what waits on the server, and where; what runs here
/metrics   the figures of this process, or of all of `processes`, for Prometheus
/live      200, or 503 where a loop stands still: then the process should be started again
/ready     200 while jobs are fetched, else 503 and why not: it starts or drains, or the server is out of reach
"""

from __future__ import annotations

import json
from collections.abc import Callable

from goworkers_py.admin.stats import Stats, for_go_workers
from goworkers_py.core.errors import BrokerError
from goworkers_py.observe.health_report import HealthReport, in_words, not_live, not_ready
from goworkers_py.observe.running_jobs import Running
from goworkers_py.web.prometheus import CONTENT_TYPE, exposition
from goworkers_py.web.server import JSON, Answer, Page


def _of_go_workers(on_server: Stats, here: HealthReport) -> Answer:
    """Each message is written as it was stored: read and written again, its numbers could change their digits."""
    jobs = ",".join(
        f"{json.dumps(queue)}:[{','.join(map(_job, running))}]" for queue, running in here["running"].items()
    )
    figures = json.dumps(for_go_workers(on_server))
    return Answer(200, f'{figures[:-1]}, "jobs": {{{jobs}}}}}', JSON)


def _job(running: Running) -> str:
    return f'{{"message":{running["message"]},"started_at":{running["started_at"]}}}'


def pages(report: Callable[[], HealthReport], stats: Callable[[], Stats]) -> dict[str, Page]:
    """`stats` raises BrokerError where the server cannot be asked."""

    def metrics() -> Answer:
        try:
            on_server = stats()
        except BrokerError:
            on_server = None  # our own figures matter most during an outage
        return Answer(200, exposition(report(), on_server), CONTENT_TYPE)

    def probe(objection: Callable[[HealthReport], str]) -> Page:
        def answer() -> Answer:
            told = report()
            why = objection(told)
            return Answer(503 if why else 200, f"{why or in_words(told)}\n")

        return answer

    return {
        "/stats": lambda: _of_go_workers(stats(), report()),
        "/metrics": metrics,
        "/live": probe(not_live),
        "/ready": probe(not_ready),
    }
