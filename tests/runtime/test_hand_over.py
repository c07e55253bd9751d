"""A delivery is in the buffer or in the hand of a worker, wherever an exception strikes the worker."""

from __future__ import annotations

import threading

import pytest

from goworkers_py.core.delivery import Delivery
from goworkers_py.runtime.fetching.buffer import STOP, Buffer
from goworkers_py.runtime.fetching.hand_over import Hand


@pytest.fixture
def jobs() -> list[Delivery]:
    return [Delivery(name, "q", "me") for name in (b"a", b"b")]


@pytest.fixture
def buffer(jobs: list[Delivery]) -> Buffer:
    buffer = Buffer(10)
    buffer.put(jobs)
    return buffer


def test_a_delivery_is_taken_again_until_it_is_released(buffer: Buffer, jobs: list[Delivery]) -> None:
    hand = Hand(buffer)
    assert hand.held is None
    assert [hand.take(), hand.take(), hand.held] == [jobs[0]] * 3
    assert (len(buffer), buffer.out) == (1, 2)
    hand.release()
    assert hand.held is None
    assert buffer.out == 1
    assert hand.take() is jobs[1]


def test_a_stop_marker_is_no_delivery(jobs: list[Delivery]) -> None:
    buffer = Buffer(10)
    buffer.put(jobs[:1])
    buffer.stop_workers(1)
    hand = Hand(buffer)
    assert hand.take() is jobs[0]
    hand.release()
    assert hand.take() is STOP
    assert hand.held is None


def test_release_is_repeated_when_an_exception_struck_before_the_hand_was_empty(
    buffer: Buffer, jobs: list[Delivery]
) -> None:
    done = buffer.done

    def struck(delivery: Delivery) -> None:
        done(delivery)
        raise KeyboardInterrupt

    hand = Hand(buffer)
    hand.take()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer, "done", struck)
        with pytest.raises(KeyboardInterrupt):
            hand.release()
    assert hand.take() is jobs[0], "a worker that starts again gets the same delivery"
    hand.release()
    assert hand.held is None
    assert buffer.out == 1


def test_two_hands_never_hold_the_same(buffer: Buffer, jobs: list[Delivery]) -> None:
    buffer.stop_workers(2)
    taken: list[Delivery] = []

    def work() -> None:
        hand = Hand(buffer)
        while (delivery := hand.take()) is not None:
            taken.append(delivery)
            hand.release()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert sorted(delivery.payload for delivery in taken) == [b"a", b"b"]
    assert buffer.out == 0
