"""Which processes live, which are declared dead, and what a process that leaves gives back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis as redis_py
from servers import RedisServer
from verbs import (
    KEYS,
    OTHER,
    OWNER,
    THIRD,
    Make,
    as_it_was,
    back,
    beat,
    consume,
    freeze_clock,
    held,
    hold,
    job,
    leave,
    publish,
    recover,
    seconds,
    strand,
)
from waiting import eventually

from goworkers_py.brokers.contracts.recoverable import DeclaredDead, LiveProcess, Presence
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.fleet import leases
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.proc import origin
from goworkers_py.core.timing import Timing
from goworkers_py.core.version import __version__
from goworkers_py.policy import known_needs


def test_a_beat_tells_the_time_of_the_server(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    freeze_clock(monkeypatch, now - 86_400)
    assert beat(broker, OWNER).server_time == pytest.approx(now, abs=30)


def test_a_lease_lives_for_a_minute_from_each_beat(broker: RedisBroker, redis: redis_py.Redis) -> None:
    for _ in range(2):
        beat(broker, OWNER, ["a", "b"], process="name")
        assert 50 < redis.ttl(KEYS.lease(OWNER)) <= 60
        redis.expire(KEYS.lease(OWNER), 5)
    entry = json.loads(redis.hget(KEYS.owners, OWNER))
    assert (entry["queues"], entry["origin"]) == ({"a": 10, "b": 10}, origin())
    assert redis.get(KEYS.holder("name")) == OWNER.encode()


def test_a_beat_that_arrives_after_a_later_one_changes_nothing(broker: RedisBroker, redis: redis_py.Redis) -> None:
    for name in ("", "j1", ""):
        broker.recoverable.beat(Presence(OWNER, {"q": 1}, alone=name))
    entry = redis.hget(KEYS.owners, OWNER)
    redis.set(KEYS.lease(OWNER), 100, ex=60)  # a beat of the same process that came before this one
    with pytest.raises(BrokerUnavailable, match="overtaken"):
        broker.recoverable.beat(Presence(OWNER, {"q": 1}, alone="j1"))
    assert redis.hget(KEYS.owners, OWNER) == entry


def test_the_entry_of_an_owner_has_the_times_of_its_first_and_its_last_beat(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    entries = []
    for _ in range(3):
        beat(broker, OTHER)
        entries.append(json.loads(redis.hget(KEYS.owners, OTHER)))
    assert [entry["heard"] for entry in entries[:2]] == [0, entries[1]["began"]]
    assert entries[2]["heard"] > entries[2]["began"] == entries[1]["began"]


def test_the_keys_of_dead_owners_and_of_process_names_expire(broker: RedisBroker, redis: redis_py.Redis) -> None:
    """Also when no process recovers for a long time."""
    beat(broker, OTHER, process="name")
    assert 50 < redis.ttl(KEYS.holder("name")) <= 60
    redis.delete(KEYS.lease(OTHER))
    recover(broker, by_lease=True)
    assert 86_400 < redis.ttl(KEYS.gone) <= 2 * 86_400


def test_a_live_process_publishes_its_version_and_the_needs_that_it_knows(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_needs, "SPEAKS", frozenset({"locks"}))
    for owner in ("lives:1:aaaaaaaaaaaa", "dead:1:aaaaaaaaaaaa", "late:1:aaaaaaaaaaaa"):
        broker.recoverable.beat(Presence(owner, {"q": 1}))
    assert not list(broker.recoverable.leave("dead:1:aaaaaaaaaaaa"))
    redis.delete(KEYS.lease("late:1:aaaaaaaaaaaa"))
    lives = LiveProcess("lives:1:aaaaaaaaaaaa", {"q": 1}, __version__, {"locks"})
    assert broker.recoverable.live_processes() == [lives]
    entry = json.loads(redis.hget(KEYS.owners, "lives:1:aaaaaaaaaaaa") or b"")
    assert (entry["v"], entry["version"], entry["speaks"]) == (1, __version__, ["locks"])


def test_jobs_of_a_living_owner_are_not_recovered(make: Make, broker: RedisBroker) -> None:
    for machine in ("", "another"):
        strand(make(machine), job(1))
        for by_lease in (False, True):
            assert recover(broker, by_lease=by_lease) == []


def test_a_living_process_is_not_taken_for_dead_when_it_tells_nothing_of_its_machine(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "origin", dict)
    strand(broker, job(1))
    assert recover(broker, by_lease=True) == []


def test_nobody_is_declared_dead_by_a_server_that_came_back_with_an_older_state(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    beat(broker, OWNER)
    before = redis.get(KEYS.lease(OWNER))
    beat(broker, OWNER)
    strand(broker, job(1), owner=OTHER)
    proof = beat(broker, OWNER).proof  # one broker counts the beats of one process
    for lease in (before, None):
        redis.delete(KEYS.lease(OTHER), KEYS.lease(OWNER))
        if lease is not None:
            redis.set(KEYS.lease(OWNER), lease)
        assert list(broker.recoverable.recover(OWNER, as_it_was, proof)) == []
    known_now = beat(broker, OWNER)
    assert not known_now.kept
    assert list(broker.recoverable.recover(OWNER, as_it_was, proof)) == [], "who asks does not know of that beat"
    assert list(broker.recoverable.recover(OWNER, as_it_was, known_now.proof)) == [back("q", OTHER, job(1))]


def test_a_proof_that_is_too_old_by_the_servers_clock_is_not_valid(
    make: Make, broker: RedisBroker, redis: redis_py.Redis
) -> None:
    """The clock was set forward, or this machine stood still: the other leases may have expired because of that."""
    strand(broker, job(1), owner=OTHER)
    redis.delete(KEYS.lease(OTHER))
    brief = make(timing=Timing(lease_s=1))
    told = beat(brief, OWNER)
    assert eventually(lambda: redis.time()[0] >= int(told.server_time + 0.5))  # a proof is valid for half of a lease
    assert list(brief.recoverable.recover(OWNER, as_it_was, told.proof)) == []
    assert list(broker.recoverable.recover(OWNER, as_it_was, beat(broker, OWNER).proof)) == [back("q", OTHER, job(1))]


def test_a_recovery_calls_no_script_for_a_living_owner(broker: RedisBroker, redis: redis_py.Redis) -> None:
    """A recovery must end before the next beat, also when the server is far away."""

    def scripts() -> int:
        return int(redis.info("commandstats")["cmdstat_evalsha"]["calls"])

    for number in range(50):
        beat(broker, f"h:{number}:{'a' * 12}")
    proof = beat(broker, OWNER).proof
    before = scripts()
    assert list(broker.recoverable.recover(OWNER, as_it_was, proof)) == []
    assert scripts() == before


def test_a_process_whose_lease_returns_before_it_is_declared_dead_keeps_its_jobs(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    strand(broker, job(1))
    redis.delete(KEYS.lease(OTHER))

    def beats_again(told: object) -> bool:
        """Called when the lease was found missing, before the script that declares the process dead."""
        redis.set(KEYS.lease(OTHER), 1)
        return False

    monkeypatch.setattr(leases, "certainly_dead", beats_again)
    assert recover(broker, by_lease=True) == []
    assert held(broker, OTHER) == [job(1)]
    beat(broker, OTHER)  # raises DeclaredDead if it was


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"no json",
        b"[]",
        b"7",
        b'{"v":2}',
        b"{}",
        b'{"queues":[]}',
        b'{"queues":{"\\ud800":1}}',
        b"\xff",
        b'{"v":[]}',
    ],
)
def test_an_entry_of_an_unknown_shape_is_left_alone_and_the_others_are_recovered(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture, entry: bytes
) -> None:
    strand(broker, job(1))
    redis.delete(KEYS.lease(OTHER))
    redis.hset(KEYS.owners, mapping={"later:1:x": entry, b"\xff\xfe": entry})
    redis.hset(KEYS.gone, "later:1:x", "no number")
    assert recover(broker, by_lease=True) == [back("q", OTHER, job(1))]
    assert recover(broker, by_lease=True) == []
    assert redis.hget(KEYS.owners, "later:1:x") == entry
    assert sum("cannot read the entries of these owners" in message for message in caplog.messages) == 1
    assert len(broker.recoverable.live_processes()) == 0


@pytest.mark.parametrize("name", ["pid", "started"])
@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 5_000, "1e999", "true", '"7"', "[]"])
def test_no_number_in_an_owners_origin_stops_a_recovery(
    broker: RedisBroker, redis: redis_py.Redis, name: str, number: str
) -> None:
    told = json.dumps(origin() | {name: "?"}).replace('"?"', number)
    redis.hset(KEYS.owners, "odd:1:x", f'{{"v":1,"queues":{{"q":1}},"origin":{told}}}')
    strand(broker, job(1))
    redis.delete(KEYS.lease(OTHER))
    assert back("q", OTHER, job(1)) in recover(broker, by_lease=True)


def test_dead_owners_are_forgotten_after_a_day(
    broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    strand(broker, job(1))
    redis.delete(KEYS.lease(OTHER))
    recover(broker, by_lease=True)
    expected = seconds(redis.time()) + 86_400
    assert float(redis.hget(KEYS.gone, OTHER)) == pytest.approx(expected, abs=30)
    recover(broker, by_lease=True)
    assert redis.hexists(KEYS.owners, OTHER)
    redis.hset(KEYS.gone, OTHER, 1)
    recover(broker, by_lease=True)
    assert not redis.exists(KEYS.owners, KEYS.gone)


def test_one_that_was_declared_dead_as_it_ended_is_forgotten_after_a_day(
    make: Make, broker: RedisBroker, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of a block ends after the recovery has read its entry, and before it looks for its lease."""
    other = make("other")
    other.recoverable.beat(Presence(OTHER, {}, blocks=True))
    leased = leases.RedisLeases._leased

    def ends_first(self: leases.RedisLeases, owners: Iterable[str]) -> set[str]:
        other.recoverable.end_blocks(OTHER)
        return leased(self, owners)

    with monkeypatch.context() as during:
        during.setattr(leases.RedisLeases, "_leased", ends_first)
        recover(broker, by_lease=True)
    assert redis.hkeys(KEYS.gone) == [OTHER.encode()]
    recover(broker, by_lease=True)
    assert redis.hexists(KEYS.gone, OTHER)
    redis.hset(KEYS.gone, OTHER, 1)
    redis.hset(KEYS.gone, "later:1:x", 1)
    redis.hset(KEYS.owners, "later:1:x", '{"v":2}')  # its jobs are recovered by the release that wrote the entry
    recover(broker, by_lease=True)
    assert redis.hkeys(KEYS.gone) == [b"later:1:x"]


def test_dead_owners_are_not_forgotten_while_their_jobs_cannot_be_moved(
    broker: RedisBroker, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    beat(broker, OTHER, ["broken", "q"])
    for queue in ("broken", "q"):
        hold(broker, job(1), owner=OTHER, queue=queue)
    redis.delete(KEYS.lease(OTHER))
    redis.set(KEYS.queue("broken"), "no list")
    assert recover(broker, by_lease=True) == [back("q", OTHER, job(1))]
    assert "queue broken cannot be recovered: WRONGTYPE" in caplog.text
    redis.hset(KEYS.gone, OTHER, 1)
    assert recover(broker, by_lease=True) == []
    assert held(broker, OTHER, "broken") == [job(1)]
    redis.delete(KEYS.queue("broken"))
    assert recover(broker, by_lease=True) == [back("broken", OTHER, job(1))]
    recover(broker, by_lease=True)
    assert not redis.exists(KEYS.owners, KEYS.gone)


def test_a_dead_process_leaves_the_fleet_also_when_the_process_that_declared_it_dead_is_killed(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    beat(broker, THIRD)
    redis.delete(KEYS.lease(THIRD))
    recover(broker, by_lease=True)
    redis.sadd("processes", THIRD)  # as after a kill of the process that declared it dead
    recover(broker, by_lease=True)
    assert not redis.sismember("processes", THIRD)


def test_a_job_that_arrives_after_leave_in_the_list_of_its_owner_is_recovered(make: Make, broker: RedisBroker) -> None:
    beat(broker, OWNER)
    assert not leave(broker, silent=False)
    with pytest.raises(DeclaredDead):
        beat(broker, OWNER)
    hold(broker, job(1))
    assert recover(make("another"), by_lease=False, owner=OTHER) == [back("q", OWNER, job(1))]


def test_leave_ends_a_fetch_that_still_waits(make: Make, redis: redis_py.Redis) -> None:
    broker = make(block_s=30)
    beat(broker, OWNER)
    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(consume, broker, OWNER, "q", 1)
        assert eventually(lambda: redis.info("clients")["blocked_clients"] == 1)
        leave(broker)
        with pytest.raises(BrokerUnavailable):
            fetching.result(15)
    assert eventually(lambda: redis.info("clients")["blocked_clients"] == 0)
    publish(broker, job(1))
    assert held(broker) == []
    expected = seconds(redis.time()) + 86_400
    assert float(redis.hget(KEYS.gone, OWNER)) == pytest.approx(expected, abs=30), "its fetch may still arrive"


@pytest.mark.parametrize("cut_short", [False, True])
def test_leave_removes_every_key_unless_a_command_may_still_arrive(
    own_redis: RedisServer, own_broker: RedisBroker, cut_short: bool
) -> None:
    redis = own_redis.client()
    beat(own_broker, OWNER, process="name")
    hold(own_broker, job(1))
    if cut_short:
        own_redis.pause()
        with ThreadPoolExecutor(1) as pool:
            fetching = pool.submit(consume, own_broker, OWNER, "q", 1)
            own_redis.kill()
            with pytest.raises(BrokerUnavailable):
                fetching.result(15)
        own_redis.start()
        beat(own_broker, OWNER)
    assert leave(own_broker) == [back("q", OWNER, job(1))]
    assert redis.exists(KEYS.owners, KEYS.gone) == (2 if cut_short else 0)
    assert not redis.exists(KEYS.lease(OWNER))


def test_a_damaged_list_does_not_prove_that_its_jobs_are_lost(broker: RedisBroker, redis: redis_py.Redis) -> None:
    of_q, of_r = Delivery(job(1), "q", OWNER), Delivery(job(2), "r", OWNER)
    redis.set(KEYS.inprogress("r", OWNER), "no list")
    assert broker.recoverable.lost([of_q, of_r]) == [of_q]
