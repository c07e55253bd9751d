from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import redis as redis_py
from apps import job, open_quarantine, own_broker, shared
from other_machine import other_machine
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.contracts.recoverable import Beat, Presence
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.fleet.leases import RedisLeases
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine, strikes
from goworkers_py.core.clock import Clock, Deadline
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.core.outcome import DONE, Outcome
from goworkers_py.core.timing import TIMING, Timing
from goworkers_py.policy.poison import PoisonPolicy, RecoveryDecision, name_of
from goworkers_py.runtime.alive import heartbeat as module
from goworkers_py.runtime.alive import steadiness
from goworkers_py.runtime.alive.heartbeat import Heartbeat
from goworkers_py.runtime.alive.lease import Lease
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.wire.message import Message

KEYS = Keys()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time by which it is told since when all is steady."""
    now = [100.0]
    monkeypatch.setattr(steadiness, "machine", other_machine(monotonic=lambda: now[0]))
    return now


class Telling:
    """A reporter that has the same to tell with every beat."""

    def __init__(self, process: str = "") -> None:
        self._process = process

    def presence(self, identity: str, alone: str) -> Presence:
        return Presence(identity, {"q": 3}, self._process, alone)

    def report(self, round_trip_s: float) -> None:
        pass


def heartbeat(
    broker: RedisBroker,
    lease: Lease,
    process: str = "",
    clock: Clock | None = None,
    quarantine: Quarantine | None = None,
    timing: Timing = TIMING,
) -> Heartbeat:
    return Heartbeat(broker.recoverable, shared(lease, quarantine, clock), Telling(process), timing)


def beating(broker: RedisBroker) -> tuple[Heartbeat, Lease]:
    """A heartbeat that has sent its first beat."""
    lease = Lease(50)
    it = heartbeat(broker, lease)
    it.beat()
    return it, lease


def beating_with_quarantine(broker: RedisBroker) -> tuple[Heartbeat, Lease, Quarantine]:
    lease = Lease(50)
    quarantine = Quarantine(PoisonPolicy(), lease, Clock(), lambda: it.beat(), lambda delivery: False, lambda: None)
    it = heartbeat(broker, lease, quarantine=quarantine)
    it.beat()
    return it, lease, quarantine


def declared_dead(broker: RedisBroker, redis: redis_py.Redis, process: str = "") -> tuple[Heartbeat, Lease]:
    """The heartbeat of a process that has beaten once and does not know yet that it was declared dead."""
    lease = Lease(50)
    it = heartbeat(broker, lease, process)
    it.beat()
    redis.hset(KEYS.gone, lease.identity, time.time() + 60)
    return it, lease


def before_each_beat(monkeypatch: pytest.MonkeyPatch, note: Callable[[Presence], None]) -> None:
    beat = RedisLeases.beat

    def noted(self: RedisLeases, presence: Presence) -> Beat:
        note(presence)
        return beat(self, presence)

    monkeypatch.setattr(RedisLeases, "beat", noted)


def test_a_beat_renews_the_lease_on_both_sides(broker: RedisBroker, redis: redis_py.Redis) -> None:
    lease = Lease(50)
    assert not lease.fresh
    assert heartbeat(broker, lease).run_once() == TIMING.beat_every_s
    assert lease.fresh
    assert 45 <= redis.ttl(KEYS.lease(lease.identity)) <= 60
    ((owner, told),) = redis.hgetall(KEYS.owners).items()
    assert owner == lease.identity.encode()
    assert json.loads(told)["queues"] == {"q": 3}
    assert json.loads(told)["trial"] == ""


def test_a_process_silent_for_longer_than_the_server_remembers_goes_on_under_another_identity(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    it, lease = beating(broker)
    identity = lease.identity
    lease.confirm(awake_and_asleep() - module.FORGOTTEN_AFTER_S - 1)
    redis.delete(KEYS.lease(identity))  # and nothing says any more that it was declared dead
    it.beat()
    assert lease.identity != identity
    assert lease.fresh
    assert not redis.exists(KEYS.lease(identity))


def test_a_lease_that_vanished_but_whose_jobs_nobody_took_is_made_again(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    it, lease = beating(broker)
    identity = lease.identity
    redis.delete(KEYS.lease(identity))
    it.beat()
    assert lease.identity == identity
    assert redis.exists(KEYS.lease(identity))


def test_a_process_that_was_declared_dead_goes_on_under_another_identity(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    it, lease = beating(broker)
    dead = lease.identity
    redis.delete(KEYS.lease(dead))
    assert not list(broker.recoverable.recover("another", lambda found: RecoveryDecision(found.payload), proof=""))
    it.beat()
    assert lease.identity != dead
    assert lease.fresh
    assert redis.exists(KEYS.lease(lease.identity))
    assert not redis.exists(KEYS.lease(dead))
    assert caplog.messages == [f"lease of {dead} expired and its jobs were recovered; continuing as {lease.identity}"]
    assert it._asked.is_set(), "its thread looks at once for jobs that were given to others"


def test_a_process_that_was_declared_dead_calls_nobody_dead_until_all_have_had_time_to_renew_their_leases(
    broker: RedisBroker, redis: redis_py.Redis, now: list[float]
) -> None:
    it, _ = declared_dead(broker, redis)
    now[0] += 7
    assert it.proof(7)
    it.beat()
    assert not it.proof(0.1)
    assert it.proof(0)


def test_nothing_is_begun_under_a_dead_identity_while_the_new_one_is_not_known_to_the_server(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, lease = declared_dead(broker, redis)
    dead, fresh_at_beat = lease.identity, []

    def note(presence: Presence) -> None:
        fresh_at_beat.append((presence.identity == dead, lease.identity == dead, lease.fresh))

    before_each_beat(monkeypatch, note)
    it.beat()
    assert fresh_at_beat == [(True, True, True), (False, True, False)]
    assert lease.fresh


def test_the_name_of_a_suspect_is_told_while_it_runs_alone_and_taken_back(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    it, lease, quarantine = beating_with_quarantine(broker)

    def told() -> str:
        return str(json.loads(redis.hget(KEYS.owners, lease.identity) or b"")["trial"])

    def run(message: Message) -> Outcome:
        assert (told(), quarantine.closed) == (name_of(message), True)
        it.beat()
        assert (told(), quarantine.closed) == (name_of(message), True)
        return DONE

    raw = job(jid="j1", recovered={"v": 1, "count": 2, "since": time.time()})
    assert quarantine.run(Message(raw, "q"), Delivery(raw, "q", lease.identity), run) is DONE
    assert (told(), quarantine.closed) == ("", False)


def test_no_other_job_begins_when_a_suspect_ends_during_a_beat_with_its_name(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the next beat takes the name back: until then a death of the process would convict the suspect."""
    it, lease, quarantine = beating_with_quarantine(broker)
    raw = job(jid="j1", recovered={"v": 1, "count": 2, "since": time.time()})
    delivery = Delivery(raw, "q", lease.identity)

    def end_the_suspect(presence: Presence) -> None:
        assert presence.alone
        delivery.stage = Stage.ENDED

    def run(message: Message) -> Outcome:
        with monkeypatch.context() as patch:
            before_each_beat(patch, end_the_suspect)
            it.beat()
        assert quarantine.closed
        it.beat()
        assert not quarantine.closed
        return DONE

    assert quarantine.run(Message(raw, "q"), delivery, run) is DONE


def test_the_servers_time_is_taken_and_a_clock_far_off_is_warned_of_once(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = time.time

    def shows(fast_s: float, within_s: float) -> bool:
        before, shown = real(), clock.wall()  # the machine may stand still between two looks
        return before + fast_s - within_s < shown < real() + fast_s + within_s

    for fast_s, warned in ((1.0, False), (-30.0, True), (30.0, True)):
        caplog.clear()
        monkeypatch.setattr(machine, "time", lambda fast_s=fast_s: real() + fast_s)
        clock = Clock()
        it = heartbeat(broker, Lease(50), clock=clock)
        assert shows(fast_s, 0.5), "its own clock, while it knows no better"
        it.beat()
        it.beat()
        assert shows(0.0, 0.9)
        lines = [message for message in caplog.messages if "this machine's clock is" in message]
        assert len(lines) == warned
        assert all(f"clock is {'' if fast_s > 0 else '-'}" in line for line in lines)


def test_a_look_for_the_dead_while_a_beat_finds_writes_lost_makes_nobody_dead(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then the server has the beat, and the heartbeat does not know yet that other leases may be missing too."""
    it, lease = beating(broker)
    broker.recoverable.beat(Presence("other:1:x", {}))
    beat, declared = broker.recoverable.beat, []

    def looked_meanwhile(presence: Presence) -> Beat:
        answer = beat(presence)
        list(broker.recoverable.recover(lease.identity, lambda found: RecoveryDecision(found.payload), it.proof(0)))
        declared.extend(redis.hkeys(KEYS.gone))
        return answer

    monkeypatch.setattr(broker.recoverable, "beat", looked_meanwhile)
    redis.delete(KEYS.lease(lease.identity), KEYS.lease("other:1:x"))
    it.beat()
    assert it.proof(0)
    assert declared == []


def test_nothing_is_steady_when_a_beat_that_found_writes_lost_was_broken_off(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    """By a log filter of the user, say. The next beat finds all as this one left it."""
    lease = Lease(50)
    quarantine = open_quarantine(lease)
    it = heartbeat(broker, lease, quarantine=quarantine)
    it.beat()
    now[0] += 7
    with monkeypatch.context() as patch:
        patch.setattr(quarantine, "announced", lambda name: 1 / 0)
        redis.delete(KEYS.lease(lease.identity))
        with pytest.raises(ZeroDivisionError):
            it.beat()
    assert it.proof(0) is None
    it.beat()
    assert not it.proof(0.1)


def test_a_clock_of_the_server_that_was_set_makes_it_unsteady(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    it = heartbeat(broker, Lease(50))
    it.beat()
    now[0] += 7
    it.beat()
    assert it.proof(7)
    beat = broker.recoverable.beat
    set_forward = steadiness.LONGEST_BETWEEN_BEATS_S + 1
    monkeypatch.setattr(
        broker.recoverable,
        "beat",
        lambda told: dataclasses.replace(answer := beat(told), server_time=answer.server_time + set_forward),
    )
    it.beat()
    assert not it.proof(0.1)


@pytest.mark.parametrize("lost", ["the lease", "the last beats"])
def test_a_server_that_came_back_with_an_older_state_makes_it_unsteady(
    broker: RedisBroker,
    redis: redis_py.Redis,
    caplog: pytest.LogCaptureFixture,
    now: list[float],
    lost: str,
) -> None:
    lease = Lease(50)
    it = heartbeat(broker, lease)
    it.beat()
    before = redis.get(KEYS.lease(lease.identity))
    now[0] += 60
    it.beat()
    assert it.proof(60) == (redis.get(KEYS.lease(lease.identity)) or b"").decode()
    assert not it.proof(60.1)
    assert not caplog.messages
    if lost == "the lease":
        redis.delete(KEYS.lease(lease.identity))
    else:
        redis.set(KEYS.lease(lease.identity), before or b"")
    it.beat()
    assert not it.proof(0.1)
    assert [message.partition(":")[0] for message in caplog.messages] == ["the broker has lost writes"]
    now[0] += 5
    it.beat()
    assert it.proof(5)
    assert not it.proof(5.1)


def test_a_process_with_a_fixed_name_is_reborn_though_the_reply_to_its_first_beat_is_lost(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, lease = declared_dead(broker, redis, "one")
    redis.delete(KEYS.lease(lease.identity))
    beat, lost = RedisLeases.beat, []

    def losing(self: RedisLeases, presence: Presence) -> Beat:
        answer = beat(self, presence)
        if not lost:
            lost.append(presence.identity)
            raise BrokerUnavailable("the reply is lost")
        return answer

    monkeypatch.setattr(RedisLeases, "beat", losing)
    with pytest.raises(BrokerUnavailable):
        it.beat()
    it.beat()
    assert lost == [lease.identity]
    assert redis.get(KEYS.holder("one")) == lease.identity.encode()


def test_a_beat_whose_reply_is_lost_is_not_taken_for_writes_that_the_server_has_lost(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    beat = broker.recoverable._beat_as

    def losing(*told: str) -> None:
        beat(*told)
        raise BrokerUnavailable("the reply is lost")

    it = heartbeat(broker, Lease(50))
    it.beat()
    with monkeypatch.context() as patch:
        patch.setattr(broker.recoverable, "_beat_as", losing)
        with pytest.raises(BrokerUnavailable):
            it.beat()
    it.beat()
    assert not caplog.messages


def test_an_identity_that_is_declared_dead_before_its_first_use_is_not_tried_again(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, lease = declared_dead(broker, redis)
    first, told = lease.identity, []

    def note(presence: Presence) -> None:
        told.append(presence.identity)
        if len(told) == 2:
            redis.hset(KEYS.gone, presence.identity, time.time() + 60)

    before_each_beat(monkeypatch, note)
    with pytest.raises(BrokerUnavailable, match="was declared dead before its first use"):
        it.beat()
    it.beat()
    assert told[:3] == [first, told[1], first]
    assert lease.identity == told[3] != told[1]
    assert lease.fresh


@pytest.mark.parametrize("release", [(3, 13), (3, 14)])
def test_deregistering_waits_for_a_beat_that_is_on_its_way(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch, release: tuple[int, int]
) -> None:
    monkeypatch.setattr(strikes, "sys", SimpleNamespace(version_info=release))
    on_its_way, answered = threading.Event(), threading.Event()
    beat = broker.recoverable.beat

    def slow(presence: Presence) -> Beat:
        on_its_way.set()
        assert answered.wait(20)
        return beat(presence)

    monkeypatch.setattr(broker.recoverable, "beat", slow)
    it = heartbeat(broker, Lease(50))
    thread = threading.Thread(target=it.beat)
    thread.start()
    assert on_its_way.wait(20)
    assert not it.silence(0.05)
    answered.set()
    assert it.silence(20)
    thread.join(20)


def test_nothing_is_thrown_into_a_worker_while_it_beats(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.14 on it could leave the lock of the beats taken."""
    monkeypatch.setattr(strikes, "sys", SimpleNamespace(version_info=(3, 14)))
    target, shut = strikes.target_of(threading.get_ident()), list[int]()
    before_each_beat(monkeypatch, lambda presence: shut.append(target._shut))
    heartbeat(broker, Lease(50)).beat()
    assert (shut, target._shut) == ([1], 0)


def test_no_beat_is_sent_after_deregistering(broker: RedisBroker, redis: redis_py.Redis) -> None:
    """A worker whose job is not over beats too."""
    it, lease = beating(broker)
    assert it.silence(5)
    assert not list(broker.recoverable.leave(lease.identity, silent=True))
    it.beat()
    assert not redis.exists(KEYS.lease(lease.identity), KEYS.owners)


def test_a_process_name_that_a_live_process_has_is_refused(broker: RedisBroker) -> None:
    first = Lease(50)
    heartbeat(broker, first, "one").beat()
    with pytest.raises(BrokerRefused, match=f"the process name 'one' is in use by {first.identity}"):
        heartbeat(broker, Lease(50), "one").beat()
    heartbeat(broker, Lease(50), "two").beat()


def test_only_a_beat_that_got_through_makes_it_steady(own_redis: RedisServer, now: list[float]) -> None:
    with own_broker(own_redis.url) as broker:
        lease = Lease(50)
        it = heartbeat(broker, lease)
        assert it.proof(0) is None
        it.beat()
        now[0] += 7
        it.beat()
        assert it.proof(7)
        assert not it.proof(7.1)
        own_redis.kill()
        with pytest.raises(BrokerUnavailable):
            it.beat()
        assert it.proof(0) is None
        own_redis.start()
        it.beat()
        now[0] += 1
        assert it.proof(1)
        assert not it.proof(1.1)


def test_it_beats_on_its_own_until_stopped(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease(50)
    it = heartbeat(broker, lease, timing=Timing(beat_every_s=0.01))
    it.start()
    assert eventually(lambda: redis.exists(KEYS.lease(lease.identity)))
    redis.delete(KEYS.lease(lease.identity))
    assert eventually(lambda: redis.exists(KEYS.lease(lease.identity)))
    it.stop()
    assert it.join(Deadline(20))


def test_a_lease_that_ran_out_while_this_process_slept_makes_it_unsteady(broker: RedisBroker, now: list[float]) -> None:
    """The others may have slept too, on the same suspended machine."""
    it, lease = beating(broker)
    now[0] += 7
    assert it.proof(7)
    lease.lapse()
    assert it.proof(0) is None
    it.beat()
    assert not it.proof(0.1)
    assert it.proof(0)


def test_each_step_looks_for_running_jobs_that_were_given_to_others(broker: RedisBroker) -> None:
    looked: list[str] = []
    lease = Lease(50)
    it = Heartbeat(broker.recoverable, shared(lease), Telling(), look_for_lost=lambda: looked.append(lease.identity))
    it.run_once()
    assert looked == [lease.identity]
