"""The pages of `stats_port`, for programs.

/stats     go-workers' JSON: the jobs on the server, by place; the jobs that run here, with `stats_jobs`
/metrics   the figures of this process, or of all of `processes`, for Prometheus
/live      200, or 503 when a loop stands still: then the process should be restarted
/ready     200 while jobs are fetched, else 503 with the reason: the process starts, is quiet or stops, a loop stands
           still, the server cannot be reached, or stuck jobs hold all threads of a queue

A page of another site, whose name somebody lets point to this machine, can read what its browser gets under that name.
So a name that others can own gets only the status of the last two.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from http import HTTPStatus
from typing import Any

import simplejson

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.values import NamedTuple
from goworkers_py.observe.health_report import HealthReport, in_words, not_live, not_ready
from goworkers_py.observe.running_jobs import RunningJob
from goworkers_py.web.http.request import name_in
from goworkers_py.web.prometheus import CONTENT_TYPE, exposition
from goworkers_py.web.server import WebServer
from goworkers_py.web.site.hiding import Hiding
from goworkers_py.wire.stored_job import StoredJob

log = logging.getLogger(__name__)

JSON = "application/json; charset=utf-8"


class ProbeAnswer(NamedTuple):
    status: int
    text: str
    kind: str = "text/plain; charset=utf-8"


Page = Callable[[], ProbeAnswer]

FOR_ALL = ("/live", "/ready")


def as_json(body: Mapping[str, Any], status: int = 200) -> ProbeAnswer:
    return ProbeAnswer(status, simplejson.dumps(body), JSON)


class Probes:
    """The WSGI application. Threads share it."""

    def __init__(self, pages: Mapping[str, Page], hosts: Collection[str] = ()) -> None:
        """`hosts` are names of this machine, beside those that no other site can have."""
        self._pages = pages
        self._hosts = {host.lower() for host in (*hosts, socket.gethostname())}

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        answer = self._answer(environ["PATH_INFO"], name_in(environ.get("HTTP_HOST") or ""))
        body = answer.text.encode("utf-8", "replace")
        headers = [("Content-Type", answer.kind), ("Content-Length", str(len(body)))]
        start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, path: str, asked_as: str) -> ProbeAnswer:
        is_own = asked_as in self._hosts or _is_of_nobody(asked_as)
        if not is_own and path not in FOR_ALL:
            return as_json({"error": f"asked as {asked_as[:200]}: name it in `hosts` of [web], or ask by address"}, 403)
        page = self._pages.get(path)
        if page is None:
            return as_json({"error": f"no such page; the pages are {', '.join(self._pages)}"}, 404)
        try:
            answer = page()
        except BrokerError as error:
            answer = as_json({"error": str(error)}, 503)
        except Exception as error:
            log.exception("page %s failed", path)
            answer = as_json({"error": str(error)}, 500)
        return answer if is_own else answer._replace(text="")


def _is_of_nobody(host: str) -> bool:
    """Whether no other site can have this name: it is an address, has no dot, or was not told, as by no browser."""
    if "." not in host.rstrip("."):
        return True
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def _of_go_workers(on_server: Stats, here: HealthReport, hiding: Hiding | None) -> ProbeAnswer:
    """Copies each message as it was stored, unless something in it is hidden: parsing and writing it again could change
    the digits of its numbers."""
    figures = simplejson.dumps(for_go_workers(on_server))
    if hiding is None:
        return ProbeAnswer(200, figures, JSON)
    jobs = ",".join(
        f"{simplejson.dumps(queue)}:[{','.join(_job(run, hiding) for run in running)}]"
        for queue, running in here["running"].items()
    )
    return ProbeAnswer(200, f'{figures[:-1]}, "jobs": {{{jobs}}}}}', JSON)


def for_go_workers(stats: Stats) -> dict[str, Any]:
    """The fields of go-workers' stats page. As there, the sizes of queues are text."""
    return {
        "processed": stats.processed,
        "failed": stats.failed,
        "enqueued": {queue.name: str(queue.size) for queue in stats.queues},
        "retries": stats.retries,
        "scheduled": stats.scheduled,
        "dead": stats.dead,
        "in_progress": stats.in_progress,
    }


def _job(running: RunningJob, hiding: Hiding) -> str:
    message = hiding.masked(StoredJob(running["message"].encode())).decode()
    return f'{{"message":{message},"started_at":{running["started_at"]}}}'


def pages(
    report: Callable[[], HealthReport], stats: Callable[[], Stats], hiding: Hiding | None = None
) -> dict[str, Page]:
    """`stats` raises BrokerError while the broker does not answer. Without `hiding`, no jobs are shown."""

    def metrics() -> ProbeAnswer:
        try:
            on_server = stats()
        except BrokerError:
            on_server = None  # an outage must not hide the figures of this process
        return ProbeAnswer(200, exposition(report(), on_server), CONTENT_TYPE)

    def probe(objection: Callable[[HealthReport], str]) -> Page:
        def answer() -> ProbeAnswer:
            now = report()
            why = objection(now)
            return ProbeAnswer(503 if why else 200, f"{why or in_words(now)}\n")

        return answer

    return {
        "/stats": lambda: _of_go_workers(stats(), report(), hiding),
        "/metrics": metrics,
        "/live": probe(not_live),
        "/ready": probe(not_ready),
    }


def serve(
    host: str, port: int, config: Config, report: Callable[[], HealthReport], stats: Callable[[], Stats]
) -> WebServer:
    """Starts the HTTP port. `stats` is as in `pages`."""
    hiding = Hiding(config.web.hide) if config.stats_jobs else None
    server = WebServer(host, port, Probes(pages(report, stats, hiding), config.web.hosts))
    server.start()
    return server
