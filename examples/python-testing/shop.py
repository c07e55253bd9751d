"""A shop whose orders are paid and delivered by jobs: see test_shop.py for their tests."""

import goworkers_py as workers

paid: list[int] = []
told: list[str] = []


class Bank:
    """Stands for a service that may be down."""

    up = True

    def charge(self, order_id: int) -> None:
        if not self.up:
            raise ConnectionError("the bank does not answer")
        if order_id not in paid:  # a job may run twice
            paid.append(order_id)


bank = Bank()


@workers.job("Shop::Charge", queue="money", retry=3, atomic=True)
def charge(order_id: int) -> None:
    bank.charge(order_id)
    tell.enqueue(order_id, "is on its way")
    tell.enqueue_in(7 * 86_400, order_id, "should be with you now")


@workers.job("Shop::Tell", queue="mail")
async def tell(order_id: int, text: str) -> None:
    told.append(f"order {order_id} {text}")


def place_order(order_id: int) -> None:
    charge.set(tags=["shop"]).enqueue(order_id)
