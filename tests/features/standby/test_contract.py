"""Elections: one leads, its lease ends by the broker's clock, and what it writes afterwards is refused."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator

import pytest
from harness import Process, Processes, back, job, jobs, part_of, waiting
from waiting import eventually

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.recoverable import DeclaredDead, Presence
from goworkers_py.brokers.contracts.transport import SettlementBatch
from goworkers_py.brokers.open_broker import open_fenced
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import Fenced
from goworkers_py.core.fence import Fence
from goworkers_py.core.job_state import JobState
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.core.outcome import DONE
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.standby.election import Bid, News

LONG_S, SHORT_S = 600.0, 0.25


def as_it_was(entry: bytes, now: float) -> tuple[str, bytes]:
    return "q", entry


class Member:
    """A process that stands in the election."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.identity = process.identity
        self.leadership: Leadership = part_of(process.broker, Leadership)
        self.fence = Fence("billing", secrets.token_hex(8))
        self.broker: Broker | None = None  # behind the fence

    def win(self, lease_s: float = LONG_S, known: int = 0, prefers: bool = False) -> int:
        bid = Bid(self.identity, self.fence.token, prefers, self.leadership.look("billing"), known)
        self.fence.epoch = self.leadership.win("billing", bid, lease_s)
        self.fence.hold(awake_and_asleep() + LONG_S)
        return self.fence.epoch

    def renew(self, lease_s: float = LONG_S) -> str:
        return self.leadership.renew("billing", self.fence, self.identity, lease_s)

    def resign(self, successor: str = "") -> bool:
        return self.leadership.resign("billing", self.fence, self.identity, successor)

    def fenced(self) -> Broker:
        if self.broker is None:
            self.broker = open_fenced(self.process.config, self.fence)
        return self.broker

    def await_end(self) -> None:
        assert eventually(lambda: self.leadership.look("billing").leader is None)


@pytest.fixture
def join(start: Processes) -> Iterator[Callable[[], Member]]:
    members: list[Member] = []

    def one_more() -> Member:
        members.append(Member(start()))
        return members[-1]

    yield one_more
    for member in members:
        if member.broker is not None:
            member.broker.close()


@pytest.fixture
def first(join: Callable[[], Member]) -> Member:
    return join()


@pytest.fixture
def second(join: Callable[[], Member]) -> Member:
    return join()


def test_one_of_two_wins_and_the_other_sees_who(first: Member, second: Member) -> None:
    assert first.win(prefers=True) == 1
    assert second.win() == 0
    standing = second.leadership.look("billing")
    assert standing.leader is not None
    assert standing.leader[:3] == (first.identity, 1, True)
    assert 0 < standing.leader.left_s <= LONG_S
    assert (standing.epoch, standing.last) == (1, first.identity)


def test_of_many_that_bid_at_once_one_wins(join: Callable[[], Member]) -> None:
    members, epochs = [join() for _ in range(6)], list[int]()
    gate = threading.Barrier(len(members))

    def bid(member: Member) -> None:
        gate.wait()
        epochs.append(member.win())

    threads = [threading.Thread(target=bid, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == [0, 0, 0, 0, 0, 1]


def test_elections_do_not_know_of_each_other(first: Member, second: Member) -> None:
    assert first.win() == 1
    bid = Bid(second.identity, "token", False, second.leadership.look("mail"))
    assert second.leadership.win("mail", bid, LONG_S) == 1


def test_a_lease_ends_by_the_brokers_clock_and_the_epoch_grows(first: Member, second: Member) -> None:
    first.win(SHORT_S)
    first.await_end()
    assert second.win() == 2
    with pytest.raises(Fenced):
        first.renew()
    assert not first.resign()


def test_a_renewed_lease_lasts(first: Member, second: Member) -> None:
    first.win(LONG_S / 10)
    first.renew()
    assert second.win() == 0
    leader = second.leadership.look("billing").leader
    assert leader is not None
    assert leader.left_s > LONG_S / 10


def test_a_lease_that_has_ended_is_not_renewed_even_if_nobody_has_won(first: Member) -> None:
    first.win(SHORT_S)
    first.await_end()
    with pytest.raises(Fenced):
        first.renew()


def test_a_bid_whose_reply_was_lost_is_answered_again(first: Member) -> None:
    assert [first.win(), first.win()] == [1, 1]


def test_an_epoch_is_higher_than_every_one_that_a_bidder_has_seen(first: Member) -> None:
    """A server that was restored from an old copy has forgotten some epochs."""
    assert first.win(known=41) == 42


def test_who_resigns_is_followed_at_once(first: Member, second: Member) -> None:
    first.win()
    assert first.resign()
    assert second.win() == 2
    assert first.process.beat().kept  # nobody has declared it dead


def test_who_looked_before_another_one_won_does_not_win_with_what_it_saw(first: Member, second: Member) -> None:
    seen = second.leadership.look("billing")
    first.win(SHORT_S)
    first.await_end()
    assert second.leadership.win("billing", Bid(second.identity, "t", False, seen), LONG_S) == 0


def test_the_jobs_of_a_leader_whose_lease_has_ended_are_recovered_at_once(first: Member, second: Member) -> None:
    first.process.publish(*jobs(1))
    first.win(SHORT_S)
    first.process.consume(1)
    first.await_end()
    second.win()
    assert second.process.recover() == [back("q", first.process, *jobs(1))]
    with pytest.raises(DeclaredDead):
        first.process.beat()


def test_a_leader_is_asked_to_step_down(first: Member, second: Member) -> None:
    first.win()
    assert not second.leadership.ask_to_step_down("billing", 2, "somebody")
    assert first.renew() == ""
    assert second.leadership.ask_to_step_down("billing", 1, "somebody")
    assert first.renew() == "somebody"
    first.resign()
    assert not second.leadership.ask_to_step_down("billing", 1, "somebody")


def test_beats_farewells_and_requests_are_told_on_the_channel(first: Member, second: Member) -> None:
    heard: list[News] = []
    end = second.leadership.listen("billing", heard.append)
    assert eventually(lambda: heard == [News()])
    first.win()
    first.renew()
    second.leadership.ask_to_step_down("billing", 1, "me")
    first.resign("me")
    told = [
        News("beat", 1, first.identity),
        News("step-down", 1, "", "me"),
        News("farewell", 1, first.identity, "me"),
    ]
    assert eventually(lambda: heard[1:] == told), heard
    end()


# --- the fence


def writes(member: Member, delivered: list[object]) -> dict[str, Callable[[], object]]:
    broker, identity = member.fenced(), member.identity
    batch = SettlementBatch("settler", 1, [(one, DONE) for one in delivered], ())  # type: ignore[misc]
    return {
        "push": lambda: broker.transport.publish([Push("q", job(7))]),
        "pushes to several queues": lambda: broker.transport.publish([Push("a", job(8)), Push("b", job(9))]),
        "a scheduled push": lambda: broker.transport.publish([Push("q", job(7), 5.0)]),
        "fetch": lambda: broker.transport.consume(identity, [("q", 1)], 1, 0),
        "settlement": lambda: broker.transport.settle(batch),
        "beat": lambda: broker.recoverable.beat(Presence(identity, {"q": 1})),
        "promotion": lambda: list(broker.store.promote(JobState.SCHEDULED, as_it_was, 10)),
        "pause": lambda: broker.admin.pause("q"),
        "farewell of the process": lambda: list(broker.recoverable.leave(identity)),
    }


def test_a_leader_writes_while_it_leads(first: Member) -> None:
    first.win()
    broker = first.fenced()
    broker.transport.publish([Push("q", job(1)), Push("other", job(2)), Push("q", job(3), 5.0)])
    broker.recoverable.beat(Presence(first.identity, {"q": 1}))
    [taken] = broker.transport.consume(first.identity, [("q", 1)], 1)
    assert list(broker.transport.settle(SettlementBatch("s", 1, [(taken, DONE)], ()))) == [True]
    list(broker.store.promote(JobState.SCHEDULED, as_it_was, 10))
    assert waiting(first.process.broker.admin) == [job(3)]


@pytest.mark.parametrize("ended", ["expired", "resigned", "won by another one"])
def test_a_leader_whose_term_is_over_writes_nothing(first: Member, second: Member, ended: str) -> None:
    """Its own clock does not help it here: it believes that its term lasts."""
    first.process.publish(*jobs(3))
    first.win(LONG_S if ended == "resigned" else SHORT_S)
    taken = first.process.consume(1)
    if ended == "resigned":
        first.resign()
    else:
        first.await_end()
    if ended == "won by another one":
        second.win()
    admin = second.process.broker.admin
    before = admin.stats(), waiting(admin), list(admin.in_progress())
    for what, write in writes(first, list(taken)).items():
        first.fence._fallen = ""
        with pytest.raises(Fenced):
            pytest.fail(f"{what} was not refused: {write()}")
        assert (admin.stats(), waiting(admin), list(admin.in_progress())) == before, what
    assert first.fence.fallen


def test_a_leader_whose_own_clock_has_passed_its_lease_sends_no_write(first: Member) -> None:
    """The broker would still do it."""
    first.process.publish(*jobs(3))
    first.win()
    taken, admin = first.process.consume(1), first.process.broker.admin
    before = admin.stats(), waiting(admin), list(admin.in_progress())
    first.fence.hold(awake_and_asleep() - 0.001)
    for what, write in writes(first, list(taken)).items():
        with pytest.raises(Fenced):
            pytest.fail(f"{what} was not refused: {write()}")
        assert (admin.stats(), waiting(admin), list(admin.in_progress())) == before, what


def test_a_leader_that_waits_for_jobs_finds_one_soon(first: Member, second: Member) -> None:
    first.win()
    broker = first.fenced()
    broker.recoverable.beat(Presence(first.identity, {"q": 1}))
    threading.Timer(0.1, lambda: second.process.publish(job(1))).start()
    assert eventually(lambda: [one.payload for one in broker.transport.consume(first.identity, [("q", 1)], 1)])
