"""Which deaths are believed, and which of them prove that a suspect has killed its process."""

from __future__ import annotations

import time

import pytest
from harness import Process, Processes, as_it_was, back, job
from waiting import eventually

from goworkers_py.brokers.contracts.recoverable import FoundJob, Presence
from goworkers_py.core.errors import LeaseGone
from goworkers_py.core.timing import Timing
from goworkers_py.policy.poison import RecoveryDecision

LEASE_S = 2.0

pytestmark = pytest.mark.usefixtures("recoverable")


def strand(process: Process, payload: bytes) -> None:
    """The process consumes the job and then sends no beat."""
    process.publish(payload)
    process.consume(1)


def recover_by_a_fresh_proof(process: Process) -> list[object]:
    return [*process.recover(proof=process.beat().proof)]


def test_a_lease_expires_after_the_time_of_the_configuration(start: Processes, me: Process) -> None:
    other = start(timing=Timing(lease_s=1.0))
    assert eventually(lambda: other.identity not in [one.identity for one in me.broker.recoverable.live_processes()])
    with pytest.raises(LeaseGone):
        other.broker.transport.consume(other.identity, [("q", 1)], 1)


def test_a_proof_is_not_valid_after_half_the_life_of_a_lease(start: Processes, other: Process) -> None:
    process = start(timing=Timing(lease_s=LEASE_S))
    strand(other, job(1))
    start.expire(other)
    proof = process.beat().proof
    time.sleep(0.55 * LEASE_S)
    assert process.recover(proof=proof) == []
    assert eventually(lambda: recover_by_a_fresh_proof(process)) == [back("q", other, job(1))]


def test_the_judge_is_told_of_no_suspect_when_another_process_died_together_with_the_owner(
    start: Processes, me: Process
) -> None:
    """Something outside may have killed both."""

    def judge(found: FoundJob) -> RecoveryDecision:
        told[found.owner] = found.alone
        return as_it_was(found)

    dead, told = [start(), start()], dict[str, str]()
    for number, process in enumerate(dead):
        process.broker.recoverable.beat(Presence(process.identity, {"q": 1}, alone=f"suspect {number}"))
        strand(process, job(number))
    start.expire(*dead)
    list(me.broker.recoverable.recover(me.identity, judge, proof=""))
    assert told == {process.identity: "" for process in dead}


def test_the_judge_is_told_of_the_suspect_when_the_other_processes_live(
    start: Processes, me: Process, other: Process
) -> None:
    def judge(found: FoundJob) -> RecoveryDecision:
        told.append(found.alone)
        return as_it_was(found)

    told: list[str] = []
    dead = start()
    dead.broker.recoverable.beat(Presence(dead.identity, {"q": 1}, alone="suspect"))
    strand(dead, job(1))
    me.beat(), other.beat()
    start.expire(dead)
    list(me.broker.recoverable.recover(me.identity, judge, proof=""))
    assert told == ["suspect"]
