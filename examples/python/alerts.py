"""Jobs that are not worth running late, errors that are no failures, and what each run needs.

See docs/expiring-jobs.md and docs/middleware-and-hooks.md.
`pyworkers run -r alerts` runs the jobs. `python alerts.py` pushes some.
"""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Iterator

import goworkers_py as workers

log = logging.getLogger(__name__)

workers.defaults(__name__, queue="alerts", retry=5, expires_in=300)  # for the jobs below

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")


@workers.around
def as_tenant(message: workers.Message) -> Iterator[None]:
    """A real program would open a session of its database here."""
    token = tenant.set(str(message.get("tenant", "nobody")))
    try:
        yield
    finally:
        tenant.reset(token)


@workers.job
def send_code(number: str, code: str) -> None:
    log.info("code %s for %s of %s", code, number, tenant.get())


@workers.job(is_failure=lambda error: not isinstance(error, workers.RetryJob))
def call(number: str, free_at: float) -> None:
    if time.time() < free_at:
        raise workers.RetryJob("the line is engaged", delay=1)  # it spends none of the five retries
    log.info("called %s", number)


@workers.on_expire
def expired(message: workers.Message) -> None:
    log.info("%s came too late, it was for %s", message.job_class, message.args[0])


@workers.on_health
def server(event: workers.HealthEvent) -> None:
    log.info("the server is %s", "lost" if event.lost else "found")


if __name__ == "__main__":
    print(send_code.set(extra={"tenant": "acme"}).enqueue("+49 30 1", "4711"))  # each prints a jid
    print(send_code.set(expires_at=time.time() - 1).enqueue("+49 30 2", "0815"))  # too late already
    print(call.enqueue("+49 30 3", time.time() + 5))
