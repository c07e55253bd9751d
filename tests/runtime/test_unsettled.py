"""A process keeps each delivery as unsettled until the broker has confirmed its end."""

from __future__ import annotations

import threading
import time

from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.runtime.settling.unsettled import Unsettled


def deliveries(*names: str) -> list[Delivery]:
    return [Delivery(name.encode(), "mail", "me") for name in names]


def test_deliveries_are_known_until_they_are_removed_the_oldest_first() -> None:
    unsettled, jobs = Unsettled(), deliveries("a", "b", "c")
    unsettled.add(jobs[:2])
    unsettled.add(jobs[2:])
    unsettled.remove(jobs[1:2])
    assert unsettled.snapshot() == [jobs[0], jobs[2]]
    assert [job in unsettled.deliveries for job in jobs] == [True, False, True]
    assert len(unsettled) == 2
    unsettled.remove(jobs)
    assert len(unsettled) == 0


def test_deliveries_of_equal_bytes_are_known_one_by_one() -> None:
    unsettled, (one, other) = Unsettled(), deliveries("same", "same")
    unsettled.add([one, other])
    unsettled.remove([one])
    assert unsettled.snapshot() == [other]
    assert one not in unsettled.deliveries


def test_what_was_not_acknowledged_is_counted_until_it_is_removed() -> None:
    unsettled, (kept, other) = Unsettled(), deliveries("kept", "other")
    unsettled.add([kept, other])
    unsettled.keep(kept)
    assert (kept.stage, other.stage, unsettled.kept) == (Stage.KEPT, Stage.FETCHED, 1)
    assert unsettled.snapshot() == [kept, other]
    unsettled.remove([kept])
    assert unsettled.kept == 0


def test_await_gone_waits_for_its_deliveries_alone_and_not_for_ever() -> None:
    unsettled, (going, staying) = Unsettled(), deliveries("going", "staying")
    unsettled.add([going, staying])
    assert not unsettled.await_gone([going], 0.01)
    threading.Timer(0.05, unsettled.remove, [[going]]).start()
    began = time.monotonic()
    assert unsettled.await_gone([going], 20)
    assert time.monotonic() - began < 15
    assert unsettled.await_gone([], 0)
