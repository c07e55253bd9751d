"""The customers of the demo shop: a thread of the daemon pushes jobs, as the web site of a real shop would.

A program of its own could do the same: it would import `jobs`, configure the broker and call `enqueue`.
"""

from __future__ import annotations

import collections
import itertools
import logging
import os
import random
import signal
import threading
import time
from pathlib import Path

import goworkers_py as workers

from . import jobs

log = logging.getLogger(__name__)

MOST_WAITING = 500  # while more jobs wait, because somebody has paused a queue, say, customers stay away
LARGEST_LOG = 5_000_000
STANDARD_INPUT = 0

_stopping = threading.Event()
_has_terminal = os.isatty(STANDARD_INPUT)
_orders = itertools.count(int(time.time()) % 100_000 // 10 * 10)  # the card of the first order is refused
_exports: collections.deque[str] = collections.deque()


def order() -> None:
    number, book = next(_orders), random.choice(jobs.BOOKS)
    express = number % 5 == 0
    jobs.place_order.set(priority="high" if express else None, tags=["express"] if express else ["shop"]).enqueue(
        number, book
    )
    jobs.sync_stock.enqueue(book)  # None, and no second job, while one of this book waits or runs


def write_review() -> None:
    book = random.choice(jobs.BOOKS)
    jobs.mail_reviews.set(group=f"book:{book}").enqueue(book, random.randrange(1000))


def change_book() -> None:
    book = random.choice(jobs.BOOKS)
    for text in ("a first draft", "a better text"):  # the second one replaces the first
        jobs.index_book.enqueue_in(10, book, text)


def send_parcels() -> None:
    """A chain: two papers are printed side by side, and the parcel is shipped when both are there."""
    papers = workers.parallel(jobs.print_label.s(workers.PREVIOUS), jobs.print_invoice.s(workers.PREVIOUS))
    workers.chain(jobs.pack.s(next(_orders)), papers, jobs.ship.s(workers.PREVIOUS)).enqueue()


def follow_parcels() -> None:
    for parcel in (1, 2):
        for event in ("picked up", "in the depot", "delivered"):
            jobs.track.enqueue(parcel, event)


def import_prices() -> None:
    with workers.batch(f"prices of {time.strftime('%H:%M:%S')}", on_success=jobs.imported, retain=1800):
        jobs.import_row.enqueue_bulk([[row] for row in range(1, 31)])


def log_in() -> None:
    jobs.send_code.enqueue_bulk([[customer] for customer in range(4)])  # the last ones come too late


def ask_for_export() -> None:
    _exports.append(jobs.export.enqueue(random.randrange(1000)) or "")


def change_mind() -> None:
    while _exports:
        workers.cancel(_exports.popleft())


def plan_reminder() -> None:
    jobs.remind.enqueue_in(random.randrange(60, 600), next(_orders))


def turn_log_over() -> None:
    """As logrotate does for a real program: it moves the file away, and HUP lets the daemon open a new one."""
    file = Path(workers.app.config.logfile)
    if file.exists() and file.stat().st_size > LARGEST_LOG:
        file.replace(file.with_name(f"{file.name}.1"))
        os.kill(os.getpid(), signal.SIGHUP)


def end_with_the_terminal() -> None:
    """To a daemon with a log file, HUP means its file only, also the HUP of a terminal that was closed."""
    if _has_terminal and not os.isatty(STANDARD_INPUT):
        os.kill(os.getpid(), signal.SIGTERM)


# How often each of them happens, in seconds. At the start all of them happen at once.
DAY = [
    (1, order),
    (2, write_review),
    (3, change_book),
    (4, lambda: jobs.move_shelf.enqueue(random.randrange(100))),
    (8, follow_parcels),
    (10, log_in),
    (15, plan_reminder),
    (15, send_parcels),
    (20, ask_for_export),
    (7, change_mind),
    (30, lambda: jobs.ask_price.set().enqueue_bulk([[book] for book in jobs.BOOKS * 2][:9])),
    (45, lambda: jobs.sales.enqueue("May")),
    (60, import_prices),
    (60, lambda: jobs.newsletter.enqueue_bulk([[reader] for reader in range(44)])),
    (60, turn_log_over),
]


@workers.before_start
def open_shop() -> None:
    threading.Thread(target=_live, name="customers", daemon=True).start()


@workers.during_drain
def close_shop() -> None:
    _stopping.set()


def _live() -> None:
    for second in itertools.count():
        end_with_the_terminal()
        try:
            if _waiting() < MOST_WAITING:
                for every_s, happens in DAY:
                    if second % every_s == 0:
                        happens()
        except workers.WorkersError as error:  # the server was stopped, say: the next customer tries again
            log.warning("a customer could not push a job: %s", error)
        if _stopping.wait(1):
            return


def _waiting() -> int:
    stats = workers.inspector.stats()
    return stats.scheduled + stats.parked + stats.retries + stats.grouped + sum(queue.size for queue in stats.queues)
