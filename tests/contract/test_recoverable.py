"""Leases: which processes live, and how the jobs of dead processes are recovered."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from harness import DEAD, Process, Processes, account, as_it_was, back, can, job, jobs, payloads, stored, waiting
from waiting import eventually, waiting_child

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.contracts.recoverable import DeclaredDead, FoundJob, Presence, Recovered
from goworkers_py.core.errors import BrokerRefused, LeaseGone, PoisonPill
from goworkers_py.core.outcome import DONE, REQUEUE
from goworkers_py.core.version import __version__
from goworkers_py.policy.poison import RecoveryDecision

pytestmark = pytest.mark.usefixtures("recoverable")


def strand(process: Process, *published: bytes, queue: str = "q") -> None:
    """The process consumes these jobs and then sends no beat."""
    process.publish(*published, queue=queue)
    assert payloads(process.consume(len(published), queue)) == list(published)


# --- jobs that were given to others


def test_a_process_learns_which_of_its_jobs_were_recovered(start: Processes, me: Process, other: Process) -> None:
    other.publish(job(1), job(2), job(2), job(3), queue="q")
    held = other.consume(4)
    assert other.broker.recoverable.lost(held) == []
    other.settle((held[0], DONE))
    assert other.broker.recoverable.lost(held) == held[:1]
    start.expire(other)
    me.recover(proof="")
    assert other.broker.recoverable.lost(held) == held
    assert other.broker.recoverable.lost([]) == []


def test_jobs_that_are_still_in_progress_are_not_lost_to_their_copies(me: Process, other: Process) -> None:
    me.publish(job(1), job(1), job(1))
    [mine], theirs = me.consume(1), other.consume(2)
    other.settle((theirs[0], DONE))
    assert me.broker.recoverable.lost([mine]) == []
    assert len(me.broker.recoverable.lost(theirs)) == 1


# --- beats


def test_a_beat_tells_the_time_of_the_broker(me: Process, admin: Admin) -> None:
    before = admin.now()
    assert before <= me.beat().server_time <= admin.now()


def test_a_lease_is_kept_as_long_as_its_process_beats(start: Processes, me: Process) -> None:
    assert me.beat().kept
    assert me.beat().kept
    start.expire(me)
    assert not me.beat().kept
    assert me.beat().kept


def test_a_lease_that_has_run_out_is_made_again_while_nobody_has_declared_its_process_dead(
    start: Processes, me: Process, other: Process
) -> None:
    strand(other, job(1))
    start.expire(other)
    other.beat()
    assert me.recover(proof=me.beat().proof) == []
    other.publish(job(2))
    assert payloads(other.consume(1)) == [job(2)]


def test_workers_returns_every_process_with_a_lease(start: Processes, me: Process, other: Process) -> None:
    other.beat(queues=["a", "b"])
    start.expire(me)
    [entry] = other.broker.recoverable.live_processes()
    assert entry.identity == other.identity
    assert sorted(entry.queues) == ["a", "b"]
    assert entry.version == __version__


def test_workers_returns_no_dead_process(start: Processes, me: Process, other: Process) -> None:
    start.expire(other)
    me.recover(proof="")
    assert [entry.identity for entry in me.broker.recoverable.live_processes()] == [me.identity]


# --- who is dead


@pytest.mark.parametrize("proven", [False, True])
def test_jobs_of_living_processes_are_not_recovered(me: Process, other: Process, proven: bool) -> None:
    strand(other, job(1))
    assert me.recover(proof=me.beat().proof if proven else None) == []
    assert me.recover(proof="" if proven else None) == []


def test_an_expired_lease_means_death_only_for_a_recovery_with_a_proof(
    start: Processes, me: Process, other: Process
) -> None:
    strand(other, job(1))
    start.expire(other)
    assert me.recover(proof=None) == []
    assert me.recover(proof=me.beat().proof) == [back("q", other, job(1))]
    assert me.recover(proof=me.beat().proof) == []


def test_an_empty_proof_is_valid_for_a_caller_without_a_lease(start: Processes, other: Process) -> None:
    strand(other, job(1))
    start.expire(other)
    asking = start.unknown()
    asking.identity = ""
    assert asking.recover(proof="") == [back("q", other, job(1))]


def test_the_proof_of_an_earlier_beat_is_not_valid(start: Processes, me: Process, other: Process) -> None:
    strand(other, job(1))
    stale = me.beat().proof
    fresh = me.beat().proof
    start.expire(other)
    assert me.recover(proof=stale) == []
    assert me.recover(proof=fresh) == [back("q", other, job(1))]


def test_a_proof_is_not_valid_when_the_lease_of_the_caller_is_missing_too(
    start: Processes, me: Process, other: Process
) -> None:
    strand(other, job(1))
    proof = me.beat().proof
    start.expire(me, other)
    assert me.recover(proof=proof) == []
    other.beat()


def test_a_process_does_not_recover_its_own_jobs(start: Processes, me: Process) -> None:
    strand(me, job(1))
    start.expire(me)
    assert me.recover(proof="") == []
    me.beat()


def test_an_identity_that_was_declared_dead_neither_beats_nor_consumes_nor_settles(
    start: Processes, me: Process, other: Process
) -> None:
    me.publish(job(1), job(2))
    [delivery] = other.consume(1)
    start.expire(other)
    me.recover(proof="")
    for _ in range(2):
        with pytest.raises(DeclaredDead):
            other.beat()
    with pytest.raises(LeaseGone):
        other.broker.transport.consume(other.identity, [("q", 1)], 1)
    assert other.settle((delivery, DONE)) == [False]
    assert payloads(me.consume(2)) == [job(2), job(1)]


def test_a_process_that_was_declared_dead_continues_under_a_new_identity(
    start: Processes, me: Process, other: Process
) -> None:
    strand(other, job(1))
    start.expire(other)
    me.recover(proof="")
    other.identity = "host:77:00000000abcd"
    other.beat()
    assert payloads(other.consume(1)) == [job(1)]


# --- what becomes of the jobs


def test_recovered_jobs_go_to_the_back_of_their_queue_in_order(
    start: Processes, me: Process, other: Process, admin: Admin
) -> None:
    strand(other, *jobs(250))
    me.publish(job("waits"))
    start.expire(other)
    assert me.recover(proof="") == [back("q", other, payload) for payload in jobs(250)]
    assert waiting(admin) == [job("waits"), *jobs(250)]
    assert [*admin.in_progress()] == []
    assert (admin.stats().processed, admin.stats().failed) == (0, 0)


def test_jobs_of_every_queue_of_a_dead_process_are_recovered(start: Processes, me: Process, other: Process) -> None:
    other.beat(queues=["a", "b", "empty"])
    for queue in "ab":
        strand(other, job(queue), queue=queue)
    start.expire(other)
    assert sorted((one.queue, one.payload) for one in me.recover(proof="")) == [("a", job("a")), ("b", job("b"))]


def test_jobs_that_a_dead_process_had_settled_are_not_recovered(start: Processes, me: Process, other: Process) -> None:
    other.publish(*jobs(4))
    one, two, three, four = other.consume(4)
    other.settle((two, DONE), (four, REQUEUE))
    start.expire(other)
    assert [recovered.payload for recovered in me.recover(proof="")] == [one.payload, three.payload]


def test_equal_jobs_of_a_dead_process_are_all_recovered(start: Processes, me: Process, other: Process) -> None:
    strand(other, job(1), job(1), job(1))
    start.expire(other)
    assert me.recover(proof="") == [back("q", other, job(1))] * 3
    assert payloads(me.consume(3)) == [job(1)] * 3


def test_the_judge_gets_which_jobs_can_have_begun_and_which_suspect_ran_alone(
    start: Processes, me: Process, other: Process
) -> None:
    def judge(one: FoundJob) -> RecoveryDecision:
        found.append(one)
        return RecoveryDecision(one.payload)

    me.beat()
    for alone in ("that of an earlier beat", "abc"):
        other.broker.recoverable.beat(Presence(other.identity, {"q": 120, "mail": 1}, alone=alone))
    strand(other, *jobs(250))
    start.expire(other)
    found: list[FoundJob] = []
    assert len(list(me.broker.recoverable.recover(me.identity, judge, proof=""))) == 250
    assert found == [
        FoundJob("q", other.identity, payload, number < 120, "abc") for number, payload in enumerate(jobs(250))
    ]


def test_a_recovered_job_goes_where_the_judge_says(start: Processes, me: Process, other: Process, admin: Admin) -> None:
    decisions = {
        job(1): RecoveryDecision(job("changed")),
        job(2): RecoveryDecision(job("buried"), PoisonPill("three times")),
        job(3): RecoveryDecision(job(3)),
    }
    strand(other, *decisions)
    start.expire(other)
    recovered = list(me.broker.recoverable.recover(me.identity, lambda one: decisions[one.payload], proof=""))
    assert recovered == [Recovered("q", other.identity, was, decision) for was, decision in decisions.items()]
    assert waiting(admin) == [job("changed"), job(3)]
    assert stored(admin, DEAD) == [job("buried")]
    assert (admin.stats().processed, admin.stats().failed) == (1, 1)


def test_each_job_has_been_moved_when_it_is_yielded(
    start: Processes, me: Process, other: Process, admin: Admin
) -> None:
    strand(other, *jobs(120))
    start.expire(other)
    for number, _ in enumerate(me.broker.recoverable.recover(me.identity, as_it_was, proof=""), 1):
        moved = waiting(admin)
        assert moved[:number] == jobs(120)[:number]
        assert len(moved) + len([*admin.in_progress()]) == 120


def test_a_recovery_that_was_broken_off_is_finished_by_the_next_recovery(
    start: Processes, me: Process, other: Process, admin: Admin
) -> None:
    strand(other, *jobs(250))
    start.expire(other)
    list(itertools.islice(me.broker.recoverable.recover(me.identity, as_it_was, proof=""), 3))
    assert len(account(admin)) == 250
    assert set(map(len, account(admin).values())) == {1}
    start().recover(proof=None)
    assert waiting(admin) == jobs(250)


def test_processes_that_recover_at_the_same_time_recover_each_job_once_and_in_order(
    start: Processes, me: Process
) -> None:
    dead = [start() for _ in range(3)]
    for number, process in enumerate(dead):
        strand(process, *(job(f"{number}:{place}") for place in range(150)))
    start.expire(*dead)
    recovering = [start() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda process: process.recover(proof=""), recovering))
    expected = {number: [job(f"{number}:{place}") for place in range(150)] for number in range(3)}
    recovered = Counter(one.payload for answer in answers for one in answer)
    assert recovered == Counter(payload for part in expected.values() for payload in part)
    consumed = payloads(me.consume(450))
    for part in expected.values():
        assert [payload for payload in consumed if payload in part] == part


def test_a_job_that_another_process_recovers_meanwhile_is_moved_and_told_once(
    start: Processes, me: Process, other: Process, admin: Admin
) -> None:
    def judge(found: FoundJob) -> RecoveryDecision:
        told.extend(third.recover(proof=None))
        return as_it_was(found)

    third, told = start(), list[Recovered]()
    strand(other, *jobs(3))
    start.expire(other)
    told += me.broker.recoverable.recover(me.identity, judge, proof="")
    assert told == [back("q", other, payload) for payload in jobs(3)]
    assert waiting(admin) == jobs(3)


# --- the end of an identity


@pytest.mark.parametrize("silent", [True, False])
def test_a_process_that_leaves_gives_back_its_jobs_in_progress(
    me: Process, other: Process, admin: Admin, silent: bool
) -> None:
    strand(other, job(1), job(2))
    assert [one.payload for one in other.leave(silent)] == [job(1), job(2)]
    assert waiting(admin) == [job(1), job(2)]
    assert [*admin.in_progress()] == []
    assert [entry.identity for entry in me.broker.recoverable.live_processes()] == [me.identity]
    with pytest.raises(LeaseGone):
        other.broker.transport.consume(other.identity, [("q", 1)], 1)


def test_an_identity_that_did_not_leave_silently_is_remembered_as_dead(me: Process, other: Process) -> None:
    assert other.leave(silent=False) == []
    with pytest.raises(DeclaredDead):
        other.beat()


def test_an_unknown_identity_may_leave(start: Processes) -> None:
    assert start.unknown().leave() == []


def test_a_process_that_leaves_after_its_jobs_were_recovered_gives_back_no_job(
    start: Processes, me: Process, other: Process, admin: Admin
) -> None:
    strand(other, job(1))
    start.expire(other)
    me.recover(proof="")
    assert other.leave() == []
    assert waiting(admin) == [job(1)]


# --- fixed process names


def test_a_process_name_is_refused_while_its_holder_lives_and_the_error_names_the_holder(
    start: Processes, other: Process
) -> None:
    other.beat(process="one")
    late = start.unknown()
    with pytest.raises(BrokerRefused, match=f"'one' is in use by {other.identity}"):
        late.beat(process="one")
    with pytest.raises(LeaseGone):
        late.consume(1)
    late.beat(process="two")
    other.beat(process="one")


@pytest.mark.parametrize("end", ["lease ran out", "left", "was declared dead"])
def test_a_process_name_is_free_when_its_holder_is_dead_or_has_left(
    start: Processes, me: Process, other: Process, end: str
) -> None:
    other.beat(process="one")
    if end == "left":
        other.leave()
    else:
        start.expire(other)
    if end == "was declared dead":
        me.recover(proof="")
    me.beat(process="one")
    with pytest.raises(DeclaredDead if end == "was declared dead" else BrokerRefused):
        other.beat(process="one")


# --- processes of the system

PROGRAM = """
import sys
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.options import Config

broker = open_broker(Config(broker=sys.argv[1]))
broker.recoverable.beat(Presence("host:2:00000000beef", {"q": 1}, process="one"))
assert broker.transport.consume("host:2:00000000beef", [("q", 1)], 1)
print("ready", flush=True)
sys.stdin.read()
"""


def child(address: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Another process of the system, which has consumed a job."""
    return waiting_child(PROGRAM, address)


@pytest.mark.parametrize("reaped", [True, False])
def test_jobs_of_a_process_that_was_killed_on_this_machine_are_recovered_at_once(me: Process, reaped: bool) -> None:
    can(me.broker, Capability.SHARED)
    me.publish(job(1))
    with child(me.config.broker) as process:
        assert me.recover(proof=None) == []
        with pytest.raises(BrokerRefused):
            me.beat(process="one")
        process.kill()
        if reaped:
            process.wait()
        else:  # until it is a zombie
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert [one.payload for one in eventually(lambda: me.recover(proof=None))] == [job(1)]
    me.beat(process="one")
    assert payloads(me.consume(1)) == [job(1)]
