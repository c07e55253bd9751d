"""Processes of one machine that died together convict no job: they were killed together, not by their jobs."""

from __future__ import annotations

import json

import pytest
import redis as redis_py
from verbs import KEYS, OTHER, OWNER, THIRD, hold, job

from goworkers_py.brokers.contracts.recoverable import FoundJob, Presence
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.brokers.redis.fleet import leases
from goworkers_py.core.timing import TIMING
from goworkers_py.policy.deaths import SILENT_S
from goworkers_py.policy.poison import RecoveryDecision


class Deaths:
    """Processes that run a suspect alone and then send no beat, and the suspects that a judge is told."""

    def __init__(self, broker: RedisBroker, redis: redis_py.Redis) -> None:
        self._broker, self._redis = broker, redis
        self.told: dict[str, str] = {}

    def begin(self, owner: str, name: str = "") -> None:
        """A beat of a process that runs the suspect of that name alone, if any."""
        self._broker.recoverable.beat(Presence(owner, {"q": 1}))
        self._broker.recoverable.beat(Presence(owner, {"q": 1}, alone=name))
        hold(self._broker, job(name), owner=owner)

    def die(self, owner: str, name: str = "") -> None:
        self.begin(owner, name)
        self._redis.delete(KEYS.lease(owner))

    def age(self, owner: str, field: str, seconds: float) -> None:
        entry = json.loads(self._redis.hget(KEYS.owners, owner))
        self._redis.hset(KEYS.owners, owner, json.dumps({**entry, field: entry[field] - seconds}))

    def recover(self) -> dict[str, str]:
        list(self._broker.recoverable.recover(OWNER, self._judge, proof=""))
        return self.told

    def find_and_die(self) -> None:
        """The process that declares them dead is killed before it moves their jobs."""
        with pytest.raises(Killed):
            list(self._broker.recoverable.recover(OWNER, be_killed, proof=""))

    def _judge(self, found: FoundJob) -> RecoveryDecision:
        self.told[found.owner] = found.alone
        return RecoveryDecision(found.payload)


class Killed(BaseException):
    """Ends a recovery halfway, as a kill does."""


def be_killed(found: FoundJob) -> RecoveryDecision:
    raise Killed


@pytest.fixture
def deaths(broker: RedisBroker, redis: redis_py.Redis) -> Deaths:
    return Deaths(broker, redis)


@pytest.mark.parametrize("together", [True, False])
def test_processes_of_one_machine_that_die_together_convict_nobody(
    deaths: Deaths, redis: redis_py.Redis, together: bool
) -> None:
    """They were killed from outside. A process that was dead before the other one began did not die with it."""
    deaths.die(OTHER, "first")
    if not together:
        deaths.recover()
        redis.hincrby(KEYS.gone, OTHER, -1)  # the times are whole seconds
    deaths.die(THIRD, "second")
    assert deaths.recover() == ({OTHER: "", THIRD: ""} if together else {OTHER: "first", THIRD: "second"})


def test_processes_that_die_some_seconds_apart_did_not_die_together(deaths: Deaths, redis: redis_py.Redis) -> None:
    deaths.begin(THIRD, "second")
    deaths.age(THIRD, "began", 100)
    deaths.die(OTHER, "first")
    assert deaths.recover() == {OTHER: "first"}
    redis.hincrby(KEYS.gone, OTHER, -5)
    redis.delete(KEYS.lease(THIRD))
    assert deaths.recover() == {OTHER: "first", THIRD: "second"}


def test_processes_that_died_together_convict_nobody_though_their_jobs_are_judged_later(
    deaths: Deaths, redis: redis_py.Redis
) -> None:
    deaths.die(OTHER, "first")
    deaths.die(THIRD, "second")
    for owner in (OTHER, THIRD):
        deaths.age(owner, "began", 100)
    deaths.find_and_die()
    for owner in (OTHER, THIRD):
        redis.hincrby(KEYS.gone, owner, -15)  # the next look
    assert deaths.recover() == {OTHER: "", THIRD: ""}


@pytest.mark.parametrize("finder", ["lives", "is killed"])
@pytest.mark.parametrize("first", [OTHER, THIRD], ids=["the suspect's", "the other's"])
def test_a_machine_that_fails_convicts_nobody_though_the_leases_of_its_processes_end_one_by_one(
    deaths: Deaths, redis: redis_py.Redis, first: str, finder: str
) -> None:
    deaths.begin(OTHER, "suspect")
    deaths.begin(THIRD)
    for owner in (OTHER, THIRD):
        deaths.age(owner, "began", 1000)
        deaths.age(owner, "heard", TIMING.lease_s + 2)
    redis.delete(KEYS.lease(first))
    if finder == "lives":
        deaths.recover()
    else:
        deaths.find_and_die()
    redis.hincrby(KEYS.gone, first, -12)  # the next look
    for owner in (OTHER, THIRD):
        deaths.age(owner, "heard", 12)
    redis.delete(KEYS.lease(OTHER), KEYS.lease(THIRD))
    assert deaths.recover()[OTHER] == ""


def test_a_living_process_did_not_die_together_with_a_dead_one(deaths: Deaths) -> None:
    deaths.begin(THIRD)
    deaths.die(OTHER, "suspect")
    assert deaths.recover() == {OTHER: "suspect"}


@pytest.mark.parametrize("found", [False, True], ids=["whose lease lasts", "that was declared dead"])
def test_a_process_that_died_long_before_another_did_not_die_together_with_it(
    deaths: Deaths, redis: redis_py.Redis, found: bool
) -> None:
    deaths.begin(THIRD)
    deaths.age(THIRD, "began", 10_000)
    deaths.age(THIRD, "heard", SILENT_S + 1)
    if found:
        redis.delete(KEYS.lease(THIRD))
        deaths.recover()
        redis.hincrby(KEYS.gone, THIRD, -3600)
    deaths.die(OTHER, "suspect")
    assert deaths.recover()[OTHER] == "suspect"


@pytest.mark.parametrize("silent_s", [0, SILENT_S + 1], ids=["both found", "both silent"])
def test_processes_on_two_machines_did_not_die_together(
    deaths: Deaths, monkeypatch: pytest.MonkeyPatch, silent_s: float
) -> None:
    for machine, owner in (("m1", OTHER), ("m2", THIRD)):
        monkeypatch.setattr(leases, "origin", lambda told=machine: {"machine": told, "pid": 1, "started": 1})
        deaths.die(owner, machine)
        deaths.age(owner, "heard", silent_s)
    assert deaths.recover() == {OTHER: "m1", THIRD: "m2"}


def test_a_suspect_in_an_entry_of_release_0_1_0_is_not_convicted(deaths: Deaths, redis: redis_py.Redis) -> None:
    """In release 0.1.0, other jobs ran beside the suspect."""
    deaths.die(OTHER, "suspect")
    entry = json.loads(redis.hget(KEYS.owners, OTHER))
    del entry["v"]
    redis.hset(KEYS.owners, OTHER, json.dumps(entry))
    assert deaths.recover() == {OTHER: ""}
