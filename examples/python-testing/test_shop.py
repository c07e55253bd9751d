"""The five usual tests of a program with jobs. Run them with `pytest`; no server is needed.

The fixtures come with goworkers-py.
"""

from collections.abc import Iterator

import pytest
import shop

from goworkers_py.testing import Sandbox


@pytest.fixture(autouse=True)
def new_shop() -> Iterator[None]:
    yield
    shop.paid.clear()
    shop.told.clear()
    shop.bank.up = True


def test_an_order_enqueues_its_charge(pyworkers_fake: Sandbox) -> None:
    shop.place_order(42)
    [job] = pyworkers_fake.assert_enqueued(shop.charge, 42, queue="money")
    assert job.message.tags == ["shop"]
    pyworkers_fake.assert_not_enqueued(shop.tell)
    assert shop.paid == []


def test_a_charge_pays_and_tells_the_customer(pyworkers_fake: Sandbox) -> None:
    shop.place_order(42)
    pyworkers_fake.run_all()
    assert shop.paid == [42]
    assert shop.told == ["order 42 is on its way"]


def test_a_charge_is_retried_when_the_bank_was_down(pyworkers_fake: Sandbox) -> None:
    shop.bank.up = False
    shop.place_order(42)
    with pytest.raises(ConnectionError):
        pyworkers_fake.run_all()
    pyworkers_fake.assert_not_enqueued(shop.tell)  # the job is atomic

    shop.bank.up = True
    pyworkers_fake.travel(60)
    pyworkers_fake.run_all()
    assert shop.paid == [42]


def test_a_charge_is_dead_when_the_bank_stays_down(pyworkers_fake: Sandbox) -> None:
    shop.bank.up = False
    shop.place_order(42)
    for _ in range(4):
        pyworkers_fake.run_all(raise_errors=False)
        pyworkers_fake.travel(86_400)
    assert [job.error for job in pyworkers_fake.dead(shop.charge)] == ["ConnectionError: the bank does not answer"]


def test_the_customer_is_asked_after_a_week(pyworkers_fake: Sandbox) -> None:
    shop.place_order(42)
    pyworkers_fake.run_all()
    pyworkers_fake.assert_enqueued(shop.tell, 42, "should be with you now", delay=7 * 86_400)
    pyworkers_fake.travel(7 * 86_400)
    pyworkers_fake.run_all()
    assert shop.told == ["order 42 is on its way", "order 42 should be with you now"]


def test_an_order_from_end_to_end(pyworkers_inline: Sandbox) -> None:
    shop.place_order(42)
    assert shop.paid == [42]
    assert shop.told == ["order 42 is on its way", "order 42 should be with you now"]
