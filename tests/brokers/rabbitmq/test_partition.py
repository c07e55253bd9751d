"""RabbitMQ as a partition beside Redis, in one daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon import Daemon, pyworkers
from waiting import eventually

from goworkers_py.api.app import App

pytestmark = pytest.mark.server


JOBS = """
    import goworkers_py as workers

    def tell(text):
        with open("told.txt", "a") as told:
            told.write(f"{text}\\n")

    @workers.job("Mail", queue="mail")
    def mail(number):
        tell(f"mail {number}")

    @workers.job("Invoice", queue="invoices", partition="billing", retry_in=0.1)
    def invoice(number, failing=False):
        run = workers.current_message().retry_count
        if failing and run is None:
            raise ValueError("once")
        tell(f"invoice {number}")
        mail.enqueue(number)

    @workers.job("Order", queue="mail", atomic=True)
    def order(number):
        invoice.enqueue(number)  # to RabbitMQ, when this job of Redis has ended
"""


@pytest.fixture
def folder(tmp_path: Path, redis_url: str, rabbit_url: str) -> Path:
    (tmp_path / "conf.ini").write_text(
        f"[pyworkers]\nredis = {redis_url}\n[queue:mail]\n[partition:billing]\nbroker = {rabbit_url}\n"
        "queues = invoices 2\n"
    )
    return tmp_path


@pytest.fixture
def producer(folder: Path) -> Iterator[App]:
    app = App()
    app.configure(folder / "conf.ini")
    yield app
    app.use(app.config)  # closes its connections


def test_jobs_of_redis_and_rabbitmq_push_to_each_other(folder: Path, redis_url: str, producer: App) -> None:
    with Daemon(folder, redis_url, JOBS, "-c", "conf.ini").ready() as daemon:
        producer.partition("billing").enqueue("invoices", "Invoice", [1])
        producer.partition("billing").enqueue("invoices", "Invoice", [2, True])
        producer.enqueue("mail", "Order", [3])
        told = pyworkers("enqueue", "-c", "conf.ini", "-r", "jobs", "Invoice", "[4]", cwd=folder)
        assert told.returncode == 0, told.stderr
        wanted = sorted(f"{what} {number}" for what in ("invoice", "mail") for number in (1, 2, 3, 4))
        path = folder / "told.txt"
        assert eventually(lambda: path.exists() and sorted(path.read_text().splitlines()) == wanted), daemon.output
        assert daemon.stop() == 0
