"""A user's code in which each line with the word `wrong` has a mistake that type checkers must find."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal

import goworkers_py as workers


@dataclass
class Line:
    sku: str
    price: Decimal


@workers.job("Billing::InvoiceJob", queue="billing", retry=5)
def invoice(order_id: int, lines: list[Line], *, due: datetime.date | None = None) -> bool:
    return bool(lines)


@workers.job
async def fetch(url: str, timeout: float = 5) -> bytes:
    return url.encode()


LINES = [Line("a-1", Decimal("9.90"))]

invoice.enqueue()  # wrong: nothing of what it needs
invoice.enqueue(42)  # wrong: one argument is missing
invoice.enqueue("42", LINES)  # wrong: a text for a number
invoice.enqueue(42, [{"sku": "a-1"}])  # wrong: a dict for a dataclass
invoice.enqueue(42, LINES, "2026-01-31")  # wrong: one argument too many
invoice.enqueue(42, LINES, due="2026-01-31")  # wrong: a text for a date
invoice.enqueue(42, LINES, until=None)  # wrong: no parameter of this name
invoice.enqueue_in(60, 42)  # wrong: one argument is missing
invoice.enqueue_in(42, LINES)  # wrong: no delay
invoice.enqueue_in("60", 42, LINES)  # wrong: a text for a delay
invoice.enqueue_at(4102444800, 42, LINES, due=5)  # wrong: a number for a date
invoice.enqueue_at(42, LINES)  # wrong: no time
invoice.set(queue="slow").enqueue(42)  # wrong: one argument is missing
invoice.set(queue="slow").enqueue_in(60, LINES, 42)  # wrong: the order
invoice.set(queue=5).enqueue(42, LINES)  # wrong: a number for a name
invoice.set(retries=5).enqueue(42, LINES)  # wrong: no option of this name
fetch.enqueue(5)  # wrong: a number for a text
fetch.enqueue("https://example.org", timeout="5")  # wrong: a text for a number
jid: str = invoice.enqueue(42, LINES)  # wrong: it may be None
