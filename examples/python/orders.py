"""Typed jobs: what a push is given is what the job gets, and a type checker compares both. See docs/arguments.md.

`pyworkers run -r orders` runs the jobs. `python orders.py` pushes some.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID, uuid4

import goworkers_py as workers

log = logging.getLogger(__name__)


class Carrier(enum.Enum):
    POST = "post"
    BIKE = "bike"


@dataclass
class Line:
    sku: str
    price: Decimal
    number: int = 1


@dataclass
class Order:
    id: UUID
    lines: list[Line]
    placed_at: datetime
    gifts: set[str] = field(default_factory=set)

    @property
    def total(self) -> Decimal:
        return sum((line.price * line.number for line in self.lines), Decimal(0))


@workers.job(queue="orders")
def ship(order: Order, *, by: Carrier, until: date | None = None) -> None:
    log.info("%s lines for %s go by %s until %s", len(order.lines), order.total, by.name, until)


@workers.job(queue="orders")
async def thank(order: Order, name: str = "friend") -> None:
    log.info("thank you, %s, for the order of %s", name, order.placed_at.date())


if __name__ == "__main__":
    order = Order(uuid4(), [Line("tea", Decimal("4.90"), 2), Line("cup", Decimal("7.20"))], datetime.now(timezone.utc))
    print(ship.enqueue(order, by=Carrier.BIKE, until=date(2030, 1, 31)))  # each prints a jid
    print(thank.enqueue_in(timedelta(seconds=1), order, name="Ada"))
    # A producer without this code writes the JSON: see the table of docs/arguments.md.
    tea = {"id": str(uuid4()), "lines": [{"sku": "tea", "price": "4.90"}], "placed_at": "2026-01-31T09:30:00Z"}
    options = workers.EnqueueOptions(retry=3)
    print(workers.enqueue_with_options("orders", "ship", [tea], options, {"by": "post"}))
