"""A fixed name that a process claims with `process = NAME`: one live process has it."""

from __future__ import annotations

import pytest
from proxy import Proxy
from verbs import OTHER, OWNER, Make, beat, leave

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.errors import BrokerRefused


def test_a_refused_process_is_not_registered(make: Make, broker: RedisBroker) -> None:
    beat(make("another"), OTHER, process="one")
    with pytest.raises(BrokerRefused):
        beat(broker, OWNER, process="one")
    assert leave(broker) == []


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
