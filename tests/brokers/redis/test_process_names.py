"""A fixed name that a process claims with `process = NAME`: one live process has it."""

from __future__ import annotations

import pytest
import redis as redis_py
from proxy import Proxy
from verbs import OTHER, OWNER, Make, back, beat, child, consume_all, job, leave, let_lease_run_out, publish, recover

from goworkers_py.brokers.contracts.recoverable import DeclaredDead
from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.errors import BrokerRefused


def test_a_name_whose_holder_lives_is_refused_and_names_the_holder(make: Make, broker: RedisBroker) -> None:
    beat(make("another"), OTHER, process="one")
    with pytest.raises(BrokerRefused, match=f"'one' is in use by {OTHER}"):
        beat(broker, OWNER, process="one")
    beat(broker, OWNER, process="two")
    for _ in range(2):
        beat(make("another"), OTHER, process="one")  # its holder goes on


def test_a_refused_process_is_not_registered(make: Make, broker: RedisBroker) -> None:
    beat(make("another"), OTHER, process="one")
    with pytest.raises(BrokerRefused):
        beat(broker, OWNER, process="one")
    assert leave(broker) == []


@pytest.mark.parametrize("end", ["lease ran out", "left", "was declared dead"])
def test_a_process_name_is_free_when_its_holder_is_dead_or_has_left(
    make: Make, broker: RedisBroker, end: str, redis: redis_py.Redis
) -> None:
    other = make("another")
    beat(other, OTHER, process="one")
    if end == "left":
        leave(other, OTHER)
    else:
        let_lease_run_out(redis, OTHER)
    if end == "was declared dead":
        recover(broker, by_lease=True)
    beat(broker, OWNER, process="one")
    with pytest.raises(DeclaredDead if end == "was declared dead" else BrokerRefused):
        beat(other, OTHER, process="one")


def test_the_name_and_the_jobs_of_a_killed_process_go_to_the_one_that_starts_after_it(
    redis_url: str, broker: RedisBroker
) -> None:
    publish(broker, job(1))
    with child(redis_url, OTHER, process="one") as process:
        with pytest.raises(BrokerRefused):
            beat(broker, OWNER, process="one")
        process.kill()
    assert recover(broker, by_lease=False) == [back("q", OTHER, job(1))]
    beat(broker, OWNER, process="one")
    assert consume_all(broker) == [job(1)]


def test_a_process_name_whose_holder_changed_after_the_look_is_looked_at_again(
    proxied: tuple[Proxy, RedisBroker],
) -> None:
    proxy, broker = proxied
    beat(broker, OTHER, process="one")
    looks = proxy.commands[b"GET"]
    proxy.damage_reply_of(b"GET", b"$-1\r\n")  # nobody had the name when it was looked at
    with pytest.raises(BrokerRefused, match=OTHER):
        beat(broker, OWNER, process="one")
    assert proxy.commands[b"GET"] - looks == 2
