"""Limits: two payments at once, ten calls a second, and the events of each order one after the other.

See docs/limits.md.
`pyworkers run -r payments` runs the jobs. `python payments.py` pushes some.
"""

from __future__ import annotations

import logging
import time

import goworkers_py as workers

log = logging.getLogger(__name__)

bank = workers.limit("bank", concurrent=2)
mails = workers.limit("mails", rate="10/second", burst=2)
order = workers.limit("order", concurrent=1, by=lambda order_id, *_: order_id)


@workers.job("charge", queue="payments", limits=[bank])
def charge(account: int) -> None:
    time.sleep(0.05)
    log.info("charged account %s", account)


@workers.job("mail", queue="payments", limits=[mails])
def mail(account: int) -> None:
    log.info("mailed account %s", account)


@workers.job("order_event", queue="payments", limits=[order])
def order_event(order_id: int, what: str) -> None:
    log.info("order %s: %s", order_id, what)


if __name__ == "__main__":
    charge.enqueue_bulk([[account] for account in range(6)])
    mail.enqueue_bulk([[account] for account in range(6)])
    for what in ("paid", "packed", "sent"):
        order_event.enqueue(7, what)
    with bank.acquire(timeout=30):
        print("a block of code had a place")
