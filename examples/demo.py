"""The demo of `make run`: three jobs, and a thread in the daemon that enqueues them.

Watch the log:

- Greet runs at once.
- Reminder runs two seconds after its push.
- Billing::InvoiceJob fails, waits in the retry set, and succeeds at its second or third run.

Ctrl-C stops the demo. Running jobs run to their end; waiting jobs stay in Redis and run at the next start.
"""

import itertools
import logging
import random
import threading
import time

import goworkers_py as workers

log = logging.getLogger("demo")

_stopping = threading.Event()


@workers.job("Greet")
def greet(name: str) -> None:
    time.sleep(random.uniform(0.1, 0.6))
    log.info("hello, %s", name)


@workers.job("Reminder", queue="mail")
def reminder(text: str, wanted_at: float) -> None:
    log.info("%s (%.0f ms after its time)", text, (time.time() - wanted_at) * 1000)


@workers.job("Billing::InvoiceJob", retry=5, retry_in=1)
def invoice(order: int) -> None:
    message = workers.current_message()
    attempt = 1 if message is None or message.retry_count is None else message.retry_count + 2
    if attempt < 2 + order % 2:
        raise ConnectionError("the bank does not answer")
    log.info("invoice %d is written, at attempt %d", order, attempt)


@workers.before_start
def start_producing() -> None:
    threading.Thread(target=_produce, name="producer", daemon=True).start()


@workers.during_drain
def stop_producing() -> None:
    _stopping.set()


def _produce() -> None:
    for number in itertools.count(1):
        greet.enqueue(random.choice(["Ada", "Grace", "Barbara", "Margaret"]))
        if number % 3 == 0:
            reminder.enqueue_in(2, f"reminder {number}", time.time() + 2)
        if number % 5 == 0:
            invoice.enqueue(number)
        if _stopping.wait(1):
            return
