"""Priorities within a queue: a code for a login goes before the newsletters, a clean-up after them.

See docs/configuration.md, "Priorities within a queue".
`pyworkers run -r mailing` runs the jobs. Then `python mailing.py` pushes some.
"""

from __future__ import annotations

import logging

import goworkers_py as workers

log = logging.getLogger(__name__)

workers.defaults(__name__, queue="mailing")  # for the jobs below


@workers.job
def newsletter(number: int) -> None:
    log.info("newsletter %s", number)


@workers.job(priority="high")
def login_code(user: str) -> None:
    log.info("a code for %s", user)


@workers.job(priority="low")
def clean_up() -> None:
    log.info("cleaned up")


if __name__ == "__main__":
    clean_up.enqueue()
    newsletter.enqueue_bulk([[number] for number in range(100)])
    newsletter.set(priority="high").enqueue(4711)  # before the other newsletters
    login_code.enqueue("ada")
    for queue in workers.inspector.queues():
        print(queue.name)
