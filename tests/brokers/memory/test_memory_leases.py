"""Leases of the memory broker, by a clock that the tests set."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from goworkers_py.brokers.contracts.recoverable import DeclaredDead, FoundJob, Presence
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.command import Command
from goworkers_py.core.errors import LeaseGone
from goworkers_py.policy.poison import RecoveryDecision
from goworkers_py.wire.process_record import MemberPool, ProcessMember, ProcessSnapshot

ME, OTHER, THIRD = "host:1:aaaaaaaaaaaa", "host:2:bbbbbbbbbbbb", "host:3:cccccccccccc"


class Site:
    """A memory broker whose clock moves only when the test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.broker = MemoryBroker(State(clock=lambda: self.now), DeadLimits())
        self.leases = self.broker.recoverable

    def beat(self, identity: str, alone: str = "") -> str:
        return self.leases.beat(Presence(identity, {"q": 10}, alone=alone)).proof

    def strand(self, identity: str, alone: str = "") -> None:
        self.beat(identity, alone)
        self.broker.transport.publish([Push("q", identity.encode())])
        assert self.broker.transport.consume(identity, [("q", 1)], 1)

    def recover(self, proof: str | None) -> list[bytes]:
        return [one.payload for one in self.leases.recover(ME, lambda found: RecoveryDecision(found.payload), proof)]

    def suspects(self) -> dict[str, str]:
        """Returns for each job found: its owner, and the suspect that the owner ran alone."""
        found: dict[str, str] = {}

        def judge(one: FoundJob) -> RecoveryDecision:
            found[one.owner] = one.alone
            return RecoveryDecision(one.payload)

        list(self.leases.recover(ME, judge, self.beat(ME)))
        return found


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_lease_lasts_for_a_minute_after_the_last_beat(site: Site) -> None:
    site.strand(OTHER)
    site.now += 59.9
    assert site.recover(site.beat(ME)) == []
    site.beat(OTHER)
    site.now += 59.9
    assert site.recover(site.beat(ME)) == []
    site.now += 0.1
    assert site.recover(site.beat(ME)) == [OTHER.encode()]


def test_a_consume_looks_at_the_lease_as_it_is_now(site: Site) -> None:
    site.beat(ME)
    site.now += 60
    with pytest.raises(LeaseGone, match=f"{ME} has no lease"):
        site.broker.transport.consume(ME, [("q", 1)], 1)


def test_a_proof_is_valid_for_half_a_lease(site: Site) -> None:
    site.strand(OTHER)
    site.now += 50
    proof = site.beat(ME)
    site.now += 30
    assert site.recover(proof) == []
    site.now -= 0.1
    assert site.recover(proof) == [OTHER.encode()]


def test_a_dead_identity_is_remembered_for_a_day(site: Site) -> None:
    site.strand(OTHER)
    site.now += 60
    site.recover(site.beat(ME))
    site.now += 86_399
    site.recover(site.beat(ME))
    with pytest.raises(DeclaredDead):
        site.beat(OTHER)
    site.now += 1
    site.recover(site.beat(ME))
    site.beat(OTHER)


def test_a_job_of_a_queue_that_no_beat_told_of_has_not_begun(site: Site) -> None:
    site.beat(OTHER)
    site.broker.transport.publish([Push("untold", b"1")])
    site.broker.transport.consume(OTHER, [("untold", 1)], 1)
    site.now += 60
    found: list[FoundJob] = []
    list(site.leases.recover(ME, lambda one: found.append(one) or RecoveryDecision(one.payload), site.beat(ME)))
    assert [(one.queue, one.begun) for one in found] == [("untold", False)]


def test_who_has_left_in_silence_is_forgotten(site: Site) -> None:
    site.beat(OTHER)
    list(site.leases.leave(OTHER))
    assert [owner.identity for owner in site.broker.admin.owners()] == []


def test_the_suspect_of_a_process_that_died_alone_is_named(site: Site) -> None:
    site.strand(OTHER, alone="abc")
    site.now += 20
    site.strand(THIRD)
    site.now += 50
    assert site.suspects() == {OTHER: "abc"}


def test_no_suspect_is_named_when_another_process_fell_silent_at_the_same_time(site: Site) -> None:
    site.strand(OTHER, alone="abc")
    site.now += 5
    site.beat(THIRD)
    site.now += 55
    assert site.suspects() == {OTHER: ""}


def test_an_owner_that_is_silent_for_four_beats_is_in_trouble(site: Site) -> None:
    site.leases.beat(Presence(ME, {"q": 1}, trouble="is closed"))
    site.now += 20
    assert site.broker.admin.owners()[0].trouble == "is closed"
    site.now += 1
    assert site.broker.admin.owners()[0].trouble == "sent no beat for 21 s"
    site.now += 40
    assert site.broker.admin.owners()[0].trouble == ""


def test_a_command_that_nobody_obeyed_for_a_minute_is_forgotten(site: Site) -> None:
    site.beat(ME)
    report = reporting(site)
    report()
    site.broker.admin.ask([ME], Command.QUIET)
    site.now += 61
    site.broker.admin.ask([ME], Command.DUMP)
    assert report() == [Command.DUMP]


def reporting(site: Site) -> Callable[[], list[Command]]:
    snapshot = ProcessSnapshot({}, quiet=False, rss=0, round_trip_s=0.0, at=site.now, embedded=False)
    return lambda: site.broker.control.report(ME, ProcessMember(site.now, [MemberPool("q", 1, {"q": 0})]), snapshot)
