from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import RedisServer
from waiting import eventually

from goworkers_py import TypedMessage, testing
from goworkers_py.admin.places import SCHEDULED
from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import state_at
from goworkers_py.core.errors import ArgumentError, BrokerUnavailable, ConfigError
from goworkers_py.core.timing import Timing

TEN_MINUTES_S = 600.0

_numbers = itertools.count(1)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    number = next(_numbers)
    path = tmp_path / "conf.ini"
    path.write_text(
        f"[pyworkers]\nbroker = memory://partitions-main-{number}\n"
        f"[partition:billing]\nbroker = memory://partitions-billing-{number}\nqueues = invoices\n"
    )
    app = App()
    app.configure(path)
    yield app
    app.quit()
    app.use(app.config)


@pytest.fixture
def ran() -> list[Any]:
    return []


@pytest.fixture
def invoice(app: App, ran: list[Any]) -> Any:
    @app.job("Invoice", queue="invoices", partition="billing")
    def invoice(number: int) -> int:
        ran.append(number)
        return number + 1

    return invoice


@pytest.fixture
def mail(app: App, ran: list[Any]) -> Any:
    return app.job("Mail", queue="mail")(ran.append)


def sizes(app: App, partition: str = "") -> dict[str, int]:
    return {queue.name: queue.size for queue in app.partition(partition).inspector.stats().queues}


def test_a_push_goes_to_the_partition_of_its_job_and_of_set(app: App, invoice: Any, mail: Any) -> None:
    invoice.enqueue(1)
    mail.enqueue(2)
    mail.set(partition="billing", queue="invoices").enqueue(3)
    invoice.set(partition="").enqueue(4)
    invoice.set(retry=3).enqueue(5)  # keeps its partition
    assert sizes(app, "billing") == {"invoices": 3}
    assert sizes(app) == {"invoices": 1, "mail": 1}


def test_a_receiver_takes_its_messages_from_the_partition_of_their_class(app: App, ran: list[Any]) -> None:
    class Order(TypedMessage, channel="invoices", partition="billing", app=app):
        number: int

        def resolve(self) -> None:
            ran.append(self.number)

    app.send(Order(1))
    assert sizes(app, "billing") == {"invoices": 1}
    with app.receive(Order, consumers=1):
        assert eventually(lambda: ran == [1])


def test_a_partition_has_the_methods_of_the_app(app: App) -> None:
    billing = app.partition("billing")
    jid = billing.enqueue("invoices", "Invoice", [1])
    assert jid is not None
    assert billing.status(jid).state == "waiting"
    assert app.status(jid).state == "unknown"
    assert billing.cancel(jid) == "cancelled"
    with billing.batch("two") as batch:
        billing.enqueue("invoices", "Invoice", [2])
    assert billing.batches.status(batch.bid) is not None
    assert app.batches.status(batch.bid) is None


def test_each_partition_is_made_once(app: App) -> None:
    assert app.partition("billing") is app.partition("billing")
    assert app.partition().broker is app.broker


def test_an_unknown_partition_is_refused_by_the_push(app: App) -> None:
    with pytest.raises(ConfigError, match="there is no partition 'biling'; there are billing; did you mean 'billing'"):
        app.job("A", partition="biling")(print).enqueue()


def test_a_job_whose_partition_is_unknown_is_refused_at_the_start(app: App) -> None:
    app.job("A", partition="biling")(print)
    with pytest.raises(ConfigError, match="@job A: there is no partition 'biling'"):
        app.start()


def test_the_threads_of_a_partition_have_its_name(app: App, invoice: Any, mail: Any) -> None:
    app.start()
    names = {thread.name for thread in threading.enumerate()}
    for service in ("heartbeat", "recoverer", "watchdog", "pauses", "scheduler", "relay"):
        assert {service, f"{service}@billing"} <= names


def test_a_batch_and_a_chain_refuse_jobs_of_another_partition(app: App, invoice: Any, mail: Any) -> None:
    with pytest.raises(ArgumentError, match=r"a chain on .*main.* cannot push Invoice, .*partition\(.billing.\)"):
        app.chain(mail.s(1), invoice.s(2)).enqueue()
    refused = pytest.raises(ArgumentError, match=r"a batch on .*billing.* cannot push Mail, .*open it by workers, or")
    with refused, app.partition("billing").batch(on_success=mail):
        pass
    app.partition("billing").chain(invoice.s(1), invoice.s(2)).enqueue()


def test_a_push_to_another_partition_joins_no_batch(app: App, invoice: Any, mail: Any) -> None:
    with app.batch("mails") as batch:
        mail.enqueue(1)
        invoice.enqueue(2)
    status = batch.status()
    assert status is not None
    assert status.total == 1


def test_periodic_jobs_belong_to_the_partition_of_their_job(app: App, invoice: Any, mail: Any) -> None:
    app.periodic(every=30, args=[1])(invoice)
    app.periodic(every=60, args=[2])(mail)
    plans = {plan.config.partition: plan.of_features.get("periodic") for _, plan in app.runner.plans()}
    assert {name: [one.schedule.name for one in periodic.jobs] for name, periodic in plans.items()} == {
        "": ["Mail"], "billing": ["Invoice"],
    }  # fmt: skip
    assert (plans[""].release.source, plans["billing"].release.source) == ("default", "default.billing")


def test_hooks_of_the_process_run_once(app: App, invoice: Any, mail: Any) -> None:
    app.before_start(lambda: None)
    app.during_drain(lambda: None)
    assert [(len(plan.before_start), len(plan.during_drain)) for _, plan in app.runner.plans()] == [(1, 1), (0, 0)]


def test_without_queues_of_its_own_the_main_partition_is_not_worked(app: App, invoice: Any) -> None:
    assert [plan.config.partition for _, plan in app.runner.plans()] == ["billing"]


def test_held_pushes_of_a_partition_outlive_its_broker_but_not_the_configuration(app: App, invoice: Any) -> None:
    client = app.partition("billing").client
    app.close()  # as at the end of a daemon
    assert client.broker is app.partition("billing").broker
    app.use(app.config)
    app.configure(broker="memory://partitions-other")
    with pytest.raises(BrokerUnavailable, match="configured anew"):
        assert client.broker


def test_a_sandbox_takes_the_pushes_of_all_partitions(app: App, invoice: Any, mail: Any, ran: list[Any]) -> None:
    with testing.Sandbox(app).open() as sandbox:
        invoice.enqueue(1)
        mail.enqueue(2)
        sandbox.assert_enqueued(invoice, 1)
        sandbox.run_all()
    assert ran == [1, 2]
    assert sizes(app, "billing") == {}


def test_the_clocks_of_all_partitions_travel_in_a_test_block(app: App, invoice: Any, mail: Any) -> None:
    before = app.partition("billing").clock
    with testing.fake(app) as sandbox:
        testing.travel(3_600)
        clocks = [before, app.clock, app.partition("billing").clock]
        assert [clock.wall() - time.time() for clock in clocks] == [pytest.approx(3_600, abs=60)] * 3
        invoice.enqueue_in(60, 1)
        mail.enqueue_in(60, 2)
        testing.travel(61)
        assert [run.outcome for run in sandbox.run_all()] == ["done", "done"]
    assert [clock.travelled_s for clock in clocks] == [0.0] * 3


def test_a_partition_that_is_first_used_after_a_journey_has_travelled_too(app: App) -> None:
    with testing.fake(app):
        testing.travel(3_600)
        assert app.partition("billing").clock.wall() == pytest.approx(time.time() + 3_600, abs=60)


def test_a_queue_of_process_is_not_missed_in_a_partition(app: App, invoice: Any) -> None:
    app.process("mail", print, 1)
    assert [app.runner.unworked(plan) for _, plan in app.runner.plans()] == [{}, {}]


def test_a_hook_that_fails_after_an_outage_stops_the_process(own_redis: RedisServer, tmp_path: Path) -> None:
    """The launcher, which has deregistered, was started again before, and never fetched."""
    path = tmp_path / "conf.ini"
    path.write_text(
        f"[pyworkers]\nredis = {own_redis.url}\n[queue:q]\n"
        f"[partition:billing]\nbroker = memory://{tmp_path.name}\nqueues = invoices\n"
    )
    app = App()
    app.configure(path)
    app.job("J", queue="q")(print)

    @app.before_start
    def push() -> None:
        raise BrokerUnavailable("the hook could not push")

    own_redis.kill()
    app.start()
    daemon = app.runner.in_background
    assert daemon is not None
    try:
        own_redis.start()
        assert eventually(app.runner._stop_asked.is_set)
        assert daemon.gave_up
    finally:
        app.quit()


class TestServersWhoseClocksDiffer:
    """The server of `billing` is ten minutes ahead of that of the main partition, and of this machine."""

    @pytest.fixture(autouse=True)
    def _clocks(self, app: App) -> None:
        app.timing = Timing(beat_every_s=0.02)
        state_at(app.partition("billing").config.broker).clock = lambda: time.time() + TEN_MINUTES_S

    def test_a_job_expires_and_is_scheduled_by_the_clock_of_its_own_server(
        self, app: App, invoice: Any, mail: Any, ran: list[Any]
    ) -> None:
        now = time.time()
        mail.set(expires_at=now + TEN_MINUTES_S / 2).enqueue(1)
        invoice.set(expires_at=now + TEN_MINUTES_S / 2).enqueue(2)  # has expired on its server
        invoice.set(expires_at=now + TEN_MINUTES_S * 1.5).enqueue(3)

        @app.job("Later", queue="mail")
        def later(delay_s: float) -> None:
            """A job pushes as the daemon does: it has the time of the servers."""
            mail.enqueue_in(delay_s, 4)
            invoice.enqueue_in(delay_s, 5)
            app.partition("billing").enqueue_in("invoices", "Invoice", delay_s, [6])

        app.start()
        assert eventually(lambda: sorted(ran) == [1, 3])
        later.enqueue(3_600)
        both = [app.partition(name).inspector for name in ("", "billing")]
        assert eventually(lambda: sum(found.count(SCHEDULED) for found in both) == 3)
        assert sorted(ran) == [1, 3]
        [mails, invoices] = [[job.at - time.time() for job in found.jobs(SCHEDULED)] for found in both]
        assert mails == [pytest.approx(3_600, abs=60)]
        assert invoices == [pytest.approx(3_600 + TEN_MINUTES_S, abs=60)] * 2

    def test_the_clock_of_a_partition_is_kept_while_the_beats_of_another_go_on(
        self, app: App, invoice: Any, mail: Any
    ) -> None:
        app.start()
        for _ in range(20):
            assert app.clock.wall() == pytest.approx(time.time(), abs=60)
            assert app.partition("billing").clock.wall() == pytest.approx(time.time() + TEN_MINUTES_S, abs=60)
            time.sleep(0.01)
