"""A user's code without any mistake: type checkers must accept all of it."""

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
def invoice(order_id: int, lines: list[Line], *, due: datetime.date | None = None, at: str = "") -> bool:
    return bool(lines)


@workers.job
async def fetch(url: str, timeout: float = 5) -> bytes:
    return url.encode()


def add(left: int, *rest: int) -> int:
    return left + sum(rest)


adding = workers.App().job(queue="sums")(add)

LINES = [Line("a-1", Decimal("9.90"))]
TODAY = datetime.date(2026, 1, 31)
LATER = datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)

jid: str | None = invoice.enqueue(42, LINES)
invoice.enqueue(order_id=42, lines=LINES, due=TODAY, at="the desk")
invoice.enqueue_in(60, 42, LINES, due=TODAY)
invoice.enqueue_in(datetime.timedelta(hours=1), 42, lines=LINES)
invoice.enqueue_at(4102444800, 42, LINES, at="the desk")
invoice.enqueue_at(LATER, order_id=42, lines=LINES)
invoice.set(queue="slow", tags=["late"]).enqueue(42, LINES, due=None)
invoice.set(retry=3).set(timeout=5).enqueue_in(60, 42, LINES)
jids: list[str | None] = invoice.enqueue_bulk([[42, LINES], [43, []]])
done: bool = invoice(42, LINES)

fetch.enqueue("https://example.org", timeout=1.5)
fetch.enqueue_in(5, url="https://example.org")
adding.enqueue(1)
adding.enqueue_at(LATER, 1, 2, 3)
total: int = adding(1, 2)
