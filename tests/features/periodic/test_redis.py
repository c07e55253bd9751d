"""What Redis keeps of schedules, and what happens when time passes there."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis as redis_py
from apps import job, own_broker

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.features.periodic.contract import BACK_S, FORGOTTEN_S, LIFE_S, STALE_S, Periodic
from goworkers_py.features.periodic.record import schedule
from goworkers_py.features.periodic.schedule import Fired, Firing, Release, Rule, Schedule, ScheduleState

APP = Release("app")
KEY, HISTORY = "pyworkers:periodic:app:nightly", "pyworkers:periodic-history:app:nightly"


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


def part(broker: RedisBroker) -> Periodic:
    return broker.require_part(Periodic)


def of(queue: str) -> Schedule:
    return schedule("nightly", Rule(every=60), {"class": "Job", "queue": queue})


def register(broker: RedisBroker, one: Schedule, release: Release = APP) -> ScheduleState:
    [state] = part(broker).register(release, [one]).states
    return state


def unseen_for(redis: redis_py.Redis, one: Schedule, seconds: float) -> None:
    redis.hset(KEY, f"seen:{one.digest}", time.time() - seconds)


def test_the_newer_text_gives_way_when_all_its_processes_have_gone_and_comes_back_with_them(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    old, new = of("old"), of("new")
    assert register(broker, old).in_force
    assert register(broker, new).in_force
    unseen_for(redis, new, STALE_S - 10)
    assert not register(broker, old).in_force
    unseen_for(redis, new, STALE_S + 10)
    assert register(broker, old).in_force
    assert register(broker, new).in_force
    assert not register(broker, old).in_force


def test_after_an_outage_in_which_nobody_registered_the_newer_text_is_in_force_again(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    old, new = of("old"), of("new")
    for one in (old, new):
        register(broker, one)
    for one in (old, new):
        unseen_for(redis, one, 600)
    register(broker, old)
    assert register(broker, new).in_force
    assert not register(broker, old).in_force


def test_a_text_that_was_not_seen_for_a_day_is_a_new_one(broker: RedisBroker, redis: redis_py.Redis) -> None:
    old, new = of("old"), of("new")
    for one in (old, new):
        register(broker, one)
    unseen_for(redis, old, FORGOTTEN_S + 10)
    assert register(broker, old).in_force
    assert not register(broker, new).in_force


@pytest.mark.parametrize("field", ["last", "anchor"])
def test_a_clock_that_has_gone_back_by_much_does_not_stop_a_schedule(
    broker: RedisBroker, redis: redis_py.Redis, field: str
) -> None:
    before = register(broker, of("q"))
    redis.hset(KEY, field, time.time() + BACK_S - 60)
    assert register(broker, of("q")).since > time.time() + 60  # no slot fires twice
    redis.hset(KEY, field, time.time() + BACK_S + 60)
    state = register(broker, of("q"))
    assert state.since < time.time() + 60
    assert state.number == before.number + 1
    assert register(broker, of("q")) == state


def test_a_record_of_a_newer_release_of_pyworkers_is_left_alone(broker: RedisBroker, redis: redis_py.Redis) -> None:
    state = register(broker, of("q"))
    redis.hset(KEY, "v", 2)
    before = redis.hgetall(KEY)
    assert not register(broker, of("q")).in_force
    firing = Firing("nightly", state.number, state.since, "fired", push=Push("q", job()))
    assert part(broker).fire(APP, firing).fired is Fired.CHANGED
    assert not part(broker).pause("app", "nightly")
    assert redis.hgetall(KEY) == before
    redis.hset("pyworkers:periodic-source:app", "v", 2)
    assert part(broker).register(APP, [of("q")]).newer == ""
    assert redis.llen("queue:q") == 0


@pytest.mark.parametrize("damage", ["no hash", "no digest"])
def test_a_damaged_record_does_not_keep_the_other_schedules_from_firing(
    broker: RedisBroker, redis: redis_py.Redis, damage: str
) -> None:
    if damage == "no hash":
        redis.set(KEY, "x")
    else:
        redis.hset(KEY, mapping={"v": 1, "n": 7})
    redis.sadd("pyworkers:periodics", "app:nightly")
    other = schedule("other", Rule(every=60), {"class": "Job"})
    damaged, fine = part(broker).register(APP, [of("q"), other]).states
    assert (damaged.number, damaged.in_force) == (0, False)
    assert fine.in_force
    assert [one.name for one in part(broker).records()] == ["nightly", "other"]
    assert part(broker).forget("app", "nightly")
    assert register(broker, of("q")).in_force


def test_unknown_fields_of_a_record_are_kept(broker: RedisBroker, redis: redis_py.Redis) -> None:
    register(broker, of("q"))
    redis.hset(KEY, "later", "x")
    state = register(broker, of("another"))
    assert part(broker).fire(APP, Firing("nightly", state.number, state.since, "missed")).fired is Fired.DONE
    assert redis.hget(KEY, "later") == b"x"
    redis.lpush(HISTORY, "postponed 1.0 2.0  jid")
    assert part(broker).history("app", "nightly")[0].word == "postponed"


def test_a_push_that_is_refused_moves_nothing(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.set("queue:q", "no list")
    state = register(broker, of("q"))
    before = redis.hgetall(KEY)
    with pytest.raises(BrokerRefused):
        part(broker).fire(APP, Firing("nightly", state.number, state.since, "fired", push=Push("q", job())))
    assert redis.hgetall(KEY) == before
    assert redis.llen(HISTORY) == 0


def test_what_nobody_registers_any_more_ends_by_itself(broker: RedisBroker, redis: redis_py.Redis) -> None:
    state = register(broker, of("q"))
    part(broker).fire(APP, Firing("nightly", state.number, state.since, "fired", push=Push("q", job())))
    assert LIFE_S - 60 < redis.ttl(KEY) <= LIFE_S
    assert LIFE_S - 60 < redis.ttl(HISTORY) <= LIFE_S
    assert FORGOTTEN_S - 60 < redis.ttl("pyworkers:periodic-source:app") <= FORGOTTEN_S
    redis.expire(KEY, 100)
    register(broker, of("q"))
    assert redis.ttl(KEY) <= 100  # written a moment ago
    unseen_for(redis, of("q"), 20)
    register(broker, of("q"))
    assert redis.ttl(KEY) > LIFE_S - 60


def test_when_the_newest_generation_is_not_seen_for_a_day_an_older_one_fires_again(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    register(broker, of("new"), Release("app", "2"))
    assert part(broker).register(Release("app", "1"), [of("old")]).newer == "2"
    redis.delete("pyworkers:periodic-source:app")  # as after a day
    assert register(broker, of("old"), Release("app", "1")).in_force


@pytest.mark.parametrize("field", ["n", "last", "anchor"])
def test_a_record_whose_numbers_are_none_is_left_alone(broker: RedisBroker, redis: redis_py.Redis, field: str) -> None:
    register(broker, of("q"))
    redis.hset(KEY, field, "x")
    other = schedule("other", Rule(every=60), {"class": "Job", "queue": "q"})
    damaged, fine = part(broker).register(APP, [of("q"), other]).states
    assert (damaged.number, fine.in_force) == (0, True)


@pytest.mark.parametrize("field", ["last", "anchor", "asked", "fired"])
def test_a_number_of_a_damaged_record_is_shown_as_0(broker: RedisBroker, redis: redis_py.Redis, field: str) -> None:
    register(broker, of("q"))
    redis.hset(KEY, field, "x")
    assert part(broker).records()[0].asked == 0


def test_a_schedule_whose_first_firing_was_refused_in_release_0_4_0_fires_again(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    before = register(broker, of("q"))
    redis.hset(KEY, "last", "")
    state = register(broker, of("q"))
    assert state == before
    firing = Firing("nightly", state.number, state.since, "fired", push=Push("q", job()))
    assert part(broker).fire(APP, firing).fired is Fired.DONE
    assert float(redis.hget(KEY, "last") or 0) == pytest.approx(state.since)  # what release 0.4.0 can read again


def test_a_schedule_whose_registration_was_refused_in_release_0_4_0_is_registered(
    broker: RedisBroker, redis: redis_py.Redis
) -> None:
    digest = of("q").digest
    redis.hset(KEY, mapping={"v": 1, f"seen:{digest}": time.time(), f"first:{digest}": time.time()})
    state = register(broker, of("q"))
    assert (state.in_force, state.number) == (True, 1)
    assert [one.name for one in part(broker).records()] == ["nightly"]


def test_a_registration_that_is_refused_leaves_no_half_of_a_record(broker: RedisBroker, redis: redis_py.Redis) -> None:
    redis.set("pyworkers:periodics", "no set")
    with pytest.raises(BrokerRefused):
        register(broker, of("q"))
    redis.delete("pyworkers:periodics")
    assert register(broker, of("q")).in_force


def test_a_record_without_a_beginning_is_left_alone(broker: RedisBroker, redis: redis_py.Redis) -> None:
    register(broker, of("q"))
    redis.hdel(KEY, "anchor", "last")
    assert register(broker, of("q")).number == 0
