from __future__ import annotations

import random
from collections import Counter

import pytest

from goworkers_py.core.delivery import Delivery
from goworkers_py.policy.priorities import StrictOrder, Weights, priorities_of

QUEUES = ("critical", "default", "low")
WEIGHTS = {"critical": 6, "default": 3, "low": 1}


class Backlog:
    """Queues with so many jobs, from which a fetch takes as a broker does."""

    def __init__(self, **jobs: int) -> None:
        self.jobs = Counter(jobs)

    def fetch(self, priorities: Weights | StrictOrder, limit: int, queues: tuple[str, ...] = QUEUES) -> Counter[str]:
        taken: list[str] = []
        for queue, at_most in priorities.asks(queues, limit):
            few = min(at_most, limit - len(taken), self.jobs[queue])
            self.jobs[queue] -= few
            taken += [queue] * few
        priorities.note(taken)
        return Counter(taken)


def test_in_strict_order_each_queue_is_asked_for_all_before_the_next() -> None:
    priorities = priorities_of(QUEUES, ())
    assert priorities.asks(QUEUES, 5) == [("critical", 5), ("default", 5), ("low", 5)]
    assert priorities.asks({"low", "critical"}, 5) == [("critical", 5), ("low", 5)]
    assert [priorities.rank(queue) for queue in QUEUES] == [0, 1, 2]


def fetched(**jobs: int) -> list[Delivery]:
    return [Delivery(b"%d" % number, queue, "me") for queue, count in jobs.items() for number in range(count)]


def test_in_strict_order_the_jobs_of_a_fetch_begin_queue_by_queue() -> None:
    begun = priorities_of(QUEUES, ()).in_turn(fetched(low=2, critical=2))
    assert [(one.queue, one.payload) for one in begun] == [
        ("critical", b"0"), ("critical", b"1"), ("low", b"0"), ("low", b"1"),
    ]  # fmt: skip


def test_the_jobs_of_a_fetch_of_weighted_queues_begin_in_shares_and_each_queue_in_order() -> None:
    priorities = priorities_of(QUEUES, (6, 3, 1))
    assert {priorities.rank(queue) for queue in QUEUES} == {0}
    begun = priorities.in_turn(fetched(critical=60, default=30, low=10))
    seen: Counter[str] = Counter()
    for number, one in enumerate(begun, 1):
        assert one.payload == b"%d" % seen[one.queue]
        seen[one.queue] += 1
        for queue, weight in WEIGHTS.items():
            assert abs(seen[queue] - number * weight / 10) < 1.5
    assert seen == {"critical": 60, "default": 30, "low": 10}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 64, 100])
def test_shares_are_right_after_every_hundred_jobs_whatever_is_fetched_at_a_time(limit: int) -> None:
    priorities, backlog, taken = Weights(WEIGHTS), Backlog(critical=9_999, default=9_999, low=9_999), Counter[str]()
    while taken.total() < 5_000:
        got = backlog.fetch(priorities, limit)
        assert got.total() == limit
        taken += got
        for queue, weight in WEIGHTS.items():
            assert abs(taken[queue] - taken.total() * weight / 10) < 1.5


def test_shares_are_right_when_each_fetch_brings_another_number() -> None:
    chance = random.Random(1)
    priorities, backlog, taken = Weights(WEIGHTS), Backlog(critical=9_999, default=9_999, low=9_999), Counter[str]()
    while taken.total() < 5_000:
        taken += backlog.fetch(priorities, chance.randrange(1, 100))
        for queue, weight in WEIGHTS.items():
            assert abs(taken[queue] - taken.total() * weight / 10) < 2


@pytest.mark.parametrize("limit", [1, 5, 10, 33])
def test_the_share_of_an_empty_queue_goes_to_the_others_by_their_weights(limit: int) -> None:
    priorities, backlog, taken = Weights({"a": 1, "b": 1, "c": 8}), Backlog(a=9_999, b=9_999), Counter[str]()
    while taken.total() < 1_000:
        got = backlog.fetch(priorities, limit, ("a", "b", "c"))
        assert got.total() == limit
        taken += got
        assert abs(taken["a"] - taken["b"]) <= limit + 1


def test_an_empty_queue_saves_nothing_up() -> None:
    priorities, backlog = Weights(WEIGHTS), Backlog(default=9_999, low=9_999)
    for _ in range(500):
        backlog.fetch(priorities, 10)
    backlog.jobs["critical"] = 9_999
    taken = sum((backlog.fetch(priorities, 10) for _ in range(10)), Counter[str]())
    assert abs(taken["critical"] - 60) <= 2
    assert abs(taken["low"] - 10) <= 2


def test_a_paused_queue_saves_nothing_up_and_is_not_asked() -> None:
    priorities, backlog = Weights(WEIGHTS), Backlog(critical=9_999, default=9_999, low=9_999)
    for _ in range(501):
        backlog.fetch(priorities, 7)
    for _ in range(100):
        assert backlog.fetch(priorities, 7, ("default", "low"))["critical"] == 0
    taken = sum((backlog.fetch(priorities, 10) for _ in range(10)), Counter[str]())
    assert abs(taken["critical"] - 60) <= 1


def uneven() -> Weights:
    """One fetch gave `a` what `c` lacked: 30 jobs against 3 of `b`."""
    priorities, backlog = Weights({"a": 1, "b": 1, "c": 8}), Backlog(a=99, b=99)
    assert backlog.fetch(priorities, 33, ("a", "b", "c")) == {"a": 30, "b": 3}
    return priorities


def shares(priorities: Weights, queues: str, limit: int) -> dict[str, int]:
    asks = priorities.asks(queues.split(), limit)
    assert {most for _, most in asks[-len(queues.split()) :]} == {limit}, "then everybody is asked for what is left"
    return dict(asks[: -len(queues.split())])


def test_what_one_fetch_gave_to_one_queue_the_next_ones_give_to_the_others() -> None:
    assert shares(uneven(), "a b", 10) == {"b": 10}
    assert shares(uneven(), "a b c", 2) == {"b": 2}, "no more than the fetch may bring"


def test_a_queue_that_has_become_empty_has_no_credit_any_more() -> None:
    priorities = uneven()
    Backlog(a=99).fetch(priorities, 10, ("a", "b", "c"))
    assert shares(priorities, "a b", 10) == {"a": 5, "b": 5}


def test_a_queue_that_was_paused_has_no_credit_any_more() -> None:
    priorities = uneven()
    priorities.asks(["a", "c"], 1)
    assert shares(priorities, "a b", 10) == {"a": 5, "b": 5}


def test_one_queue_alone_gets_everything() -> None:
    priorities, backlog = Weights(WEIGHTS), Backlog(low=15)
    assert priorities.asks(["low"], 9)[0] == ("low", 9)
    priorities.note(["low"] * 9)
    assert [backlog.fetch(priorities, 10) for _ in range(3)] == [{"low": 10}, {"low": 5}, {}]


def test_more_than_was_asked_for_changes_no_share_for_long() -> None:
    """Waits that earlier fetches left running brought more."""
    priorities, backlog = Weights(WEIGHTS), Backlog(critical=9_999, default=9_999, low=9_999)
    priorities.asks(QUEUES, 1)
    priorities.note(["critical", "default", "low"])
    taken = Counter({"critical": 1, "default": 1, "low": 1})
    for _ in range(30):
        taken += backlog.fetch(priorities, 10)
    assert abs(taken["low"] - taken.total() / 10) < 2
