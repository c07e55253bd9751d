"""The jobs of the demo shop. Each shows one thing that a job can do.

They sleep where a real shop would work, so look at the options above the functions. docs/ has a page for each of them.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Generator, Iterator

import goworkers_py as workers

log = logging.getLogger(__name__)

workers.defaults(__name__, track=True)  # where each job is and how it came there, for the pages; it costs a little

BOOKS = ("Emma", "Ulysses", "Dracula", "Middlemarch", "Walden")


def work(least_s: float, most_s: float) -> None:
    time.sleep(random.uniform(least_s, most_s))


# --- A job, its priority, its retries, its death


@workers.job("Order::PlaceJob", queue="orders", tags=["shop"])
def place_order(order: int, book: str) -> None:
    """Pushes other jobs, all or none: `atomic` holds them back until this one has ended well."""
    work(0.1, 0.4)
    with workers.atomic():
        confirm.enqueue(order)
        charge.enqueue(order)


@workers.job("Mail::ConfirmJob", queue="mail", retry=5, retry_in=5)
def confirm(order: int) -> None:
    """Fails now and then, and succeeds when it is retried."""
    work(0.1, 0.3)
    message = workers.current_message()
    if order % 4 == 0 and (message is None or message.retry_count is None):
        raise ConnectionError("the mail server does not answer")


@workers.job("Mail::NewsletterJob", queue="mail", priority="low", tags=["newsletter"])
def newsletter(reader: int) -> None:
    """Waits while the queue has anything else."""
    work(0.5, 1)


class CardRefused(Exception):
    pass


card_service = workers.limit("card-service", concurrent=2)


@workers.job("Payment::ChargeJob", queue="payments", retry=1, retry_in=lambda count, error: 4, limits=[card_service])
def charge(order: int, card: str = "") -> None:
    """Two run at once in the whole fleet. One card in ten is refused: the job is retried once, and then it is dead."""
    work(0.5, 1.5)
    if order % 10 == 0 and not card:
        raise CardRefused(f"the card of order {order} has expired")


# --- Not too many at once, not twice, one after the other

supplier = workers.limit("supplier", rate="20/minute")


@workers.job("Supplier::PriceJob", queue="stock", limits=[supplier])
def ask_price(book: str) -> None:
    """Twenty begin in a minute. The others wait in the line of the limit, and hold no thread."""
    work(0.1, 0.5)


@workers.job("Stock::SyncJob", queue="stock", unique_for=300)
def sync_stock(book: str) -> None:
    """One of each book at a time: a push does nothing while another job of this book waits or runs."""
    work(2, 3)


@workers.job("Search::IndexBookJob", queue="catalogue", unique_for=300, unique_by=lambda book, *_: book,
             on_conflict="replace")  # fmt: skip
def index_book(book: str, text: str) -> None:
    """Pushed ten seconds ahead. Of all pushes until then it runs once, with the newest text."""
    work(0.2, 0.4)


parcel_events = workers.limit("parcel", concurrent=1, by=lambda parcel, *_: parcel)


@workers.job("Parcel::TrackJob", queue="parcels", limits=[parcel_events])
def track(parcel: int, event: str) -> None:
    """The events of a parcel run one after the other, in their order; those of other parcels run beside them."""
    work(0.5, 1.5)


# --- Many as one: a batch with its callback, a chain, a group


@workers.job("Catalogue::ImportRowJob", queue="catalogue", retry=3, retry_in=2)
def import_row(row: int) -> None:
    work(0.4, 1.2)
    if random.random() < 0.05:
        raise ValueError(f"row {row} has no price yet")


@workers.job("Catalogue::ImportedJob", queue="catalogue")
def imported(bid: str) -> None:
    """The callback: pushed when all rows of the batch have succeeded."""
    if (status := workers.batches.status(bid)) is not None:
        workers.report("import", {"file": status.name, "rows": status.succeeded})


@workers.job("Parcel::PackJob", queue="parcels")
def pack(order: int) -> dict[str, int]:
    """The first link of a chain. The next ones get its result."""
    work(1, 3)
    return {"order": order, "grams": random.randrange(200, 2000)}


@workers.job("Parcel::LabelJob", queue="parcels")
def print_label(parcel: dict[str, int]) -> str:
    work(1, 4)
    return f"label of order {parcel['order']}"


@workers.job("Parcel::InvoiceJob", queue="parcels")
def print_invoice(parcel: dict[str, int]) -> str:
    work(1, 4)
    return f"invoice of order {parcel['order']}"


@workers.job("Parcel::ShipJob", queue="parcels", retry=3, retry_in=3)
def ship(papers: list[str]) -> None:
    work(1, 3)
    log.info("shipped with %s", " and ".join(papers))


@workers.job("Review::MailJob", queue="reviews", group_grace=8, group_max_delay=20, group_max_size=8)
def mail_reviews(book: str, *readers: int) -> None:
    """Reviews of a book gather in a group, and the author gets one mail for all of them."""
    work(0.5, 1)


@mail_reviews.aggregate
def one_mail(members: list[list[int | str]]) -> list[int | str]:
    return [members[0][0], *(reader for _, reader in members)]


# --- Long ones: with progress, with a result, cancelled, expired


def tell_progress(at: int, total: int, text: str) -> None:
    if (message := workers.current_message()) is not None:
        message.progress(at, total, text)


@workers.periodic(every=60, overlap="skip", args=["books"])
@workers.job("Search::ReindexJob", queue="catalogue", time_slice=15, checkpoint=1)
def reindex(shelf: str, *, cursor: int = 0) -> Iterator[int]:
    """Goes on where it stopped: stop the demo in the middle, and start it again."""
    for number in range(cursor + 1, 101):
        work(0.2, 0.4)
        tell_progress(number, 100, f"{shelf}, page {number}")
        yield number


@workers.job("Report::SalesJob", queue="reports", retain=600, tags=["monthly"])
def sales(month: str, *, cursor: int = 0) -> Generator[int, None, dict[str, int]]:
    """Slow, and its result is kept for ten minutes: the page of the job shows it."""
    for day in range(cursor + 1, 31):
        work(0.4, 0.8)
        tell_progress(day, 30, f"{month} {day}")
        yield day
    return {"books": random.randrange(2_000, 3_000), "refunds": random.randrange(20)}


@workers.job("Customer::ExportJob", queue="reports")
def export(customer: int, *, cursor: int = 0) -> Iterator[int]:
    """The customer has second thoughts after some seconds, and the job is cancelled while it waits or runs."""
    for file in range(cursor + 1, 301):
        work(0.1, 0.2)
        yield file


@workers.job("Sms::CodeJob", queue="sms", expires_in=4)
def send_code(customer: int) -> None:
    """A code for a login is worth nothing later: what was not begun in time never runs."""
    work(1.5, 2.5)


@workers.job("Mail::ReviewReminderJob", queue="mail", tags=["reminder"])
def remind(order: int) -> None:
    """Scheduled: pushed now, due in some minutes."""
    work(0.1, 0.2)


# --- At certain times


@workers.job("Stock::CountJob", queue="stock")
def count_stock() -> None:
    """Periodic by its section in conf/demo.ini."""
    work(0.2, 1)


@workers.periodic(every=5)
@workers.job("Report::FiguresJob", queue="reports")
def tell_figures() -> None:
    """Reports are what programs tell people: the page Reports, or `pyworkers reports --follow`."""
    stats = workers.inspector.stats()
    workers.report("figures", {"done": stats.processed, "failed": stats.failed, "discount": _discount})


@workers.periodic("0 3 * * *", timezone="Europe/Berlin", args=lambda night: [f"{night:%B}"], name="nightly sales")
@workers.job("Report::NightlyJob", queue="reports")
def nightly(month: str) -> None:
    sales.enqueue(month)


@workers.periodic(every=30)
@workers.job("Payment::SecondChanceJob", queue="payments")
def second_chance() -> None:
    """Does by a program what people do on the page of dead jobs: it pushes one of them again, with another card."""
    inspector = workers.inspector
    for job in inspector.page(inspector.DEAD, workers.Filter(job_class="Payment::ChargeJob"), limit=1).jobs:
        if job.message is not None:  # it is no garbage
            inspector.enqueue_again(job, args=[*job.message.args, "another card"])
            list(inspector.delete(inspector.DEAD, workers.Filter(jids=[job.jid])))
            inspector.note_action("night shift", "push again", "a refused payment", 1)


# --- In another partition, and a command


@workers.job("Shelf::MoveJob", queue="shelves", partition="warehouse")
def move_shelf(number: int) -> None:
    """On the broker of the partition `warehouse`."""
    work(1, 2)


_discount = 0


@workers.command("sale")
def begin_sale(percent: int) -> dict[str, int]:
    """A command of the program: call it on the page of the process, or by `pyworkers processes call sale`."""
    global _discount
    before, _discount = _discount, percent
    return {"before": before, "now": percent}
