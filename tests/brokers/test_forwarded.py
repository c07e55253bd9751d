"""A broker that is made of others forwards or answers each member of the contracts: a default hides none of them."""

from __future__ import annotations

from typing import Any

import pytest

from goworkers_py.brokers.absent import Completed
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.recoverable import Recoverable
from goworkers_py.brokers.contracts.transport import Transport
from goworkers_py.brokers.forwarded import forwarded
from goworkers_py.brokers.two_servers.broker import StoreLeases, TwoServers
from goworkers_py.brokers.two_servers.transport import TwoServerTransport

# Asked of a class before it is opened; or used by `part` of the broker that has the parts.
OF_CLASSES = {"open", "open_fenced", "check", "access_rules", "part_maker", "family", "own_parts", "reliability"}
# The base class answers by `capabilities`, `part`, `name` and `remedy`.
WORKED_OUT = {"require", "require_part"}


def members(kind: type) -> set[str]:
    return {name for name in {**vars(kind), **kind.__annotations__} if not name.startswith("_")}


class Other(Broker):
    """A broker of another package that differs from every default."""

    name = "other"
    redelivers = True
    one_consumer = True
    remedy = "start it with a store"

    def __init__(self, *capabilities: Capability) -> None:
        self.capabilities = capabilities
        for part in members(Broker) - OF_CLASSES - WORKED_OUT - members(Other) - {"capabilities"}:
            setattr(self, part, PollablePart())


class PollablePart:
    """Stands in for any part of a broker: these are only handed on."""

    def leave_waits(self) -> None: ...

    def begin_waits(self) -> None: ...


MADE_OF_OTHERS: dict[str, Broker] = {
    "completed": Completed(Other()),
    "two servers": TwoServers(Other(), Other(*Capability)),
}


@pytest.mark.parametrize("broker", MADE_OF_OTHERS.values(), ids=MADE_OF_OTHERS.keys())
def test_each_member_of_a_broker_is_forwarded_or_answered(broker: Broker) -> None:
    own = vars(type(broker)).keys() | vars(broker).keys()
    assert members(Broker) - OF_CLASSES - WORKED_OUT - own == set()


@pytest.mark.parametrize(("kind", "contract"), [(TwoServerTransport, Transport), (StoreLeases, Recoverable)])
def test_each_member_of_a_part_is_forwarded_or_answered(kind: type, contract: type) -> None:
    assert members(contract) - vars(kind).keys() == set()


def test_a_broker_with_stand_ins_says_what_it_says_itself() -> None:
    """Its fence too: without it, the lease of a leader would not end with its term."""
    broker = Other()
    stand_ins = {"store", "recoverable", "control"}
    for member in members(Broker) - OF_CLASSES - WORKED_OUT - stand_ins:
        assert getattr(Completed(broker), member) == getattr(broker, member), member


def test_two_servers_have_the_parts_of_the_store_and_the_clues_of_the_service() -> None:
    service, store = Other(), Other(*Capability)
    both = TwoServers(service, store)
    for part in ("store", "control", "admin", "metrics", "neighbours"):
        assert getattr(both, part) is getattr(store, part), part
    assert both.death_clues is service.death_clues
    assert (both.fence, both.one_consumer, both.remedy) == (None, False, Broker.remedy)


def test_a_part_is_asked_for_when_it_is_used() -> None:
    """One that is made when it is first used stays unmade until then."""

    class Late:
        @property
        def part(self) -> Any:
            made.append("part")
            return "the part"

    class Outer:
        part = forwarded("_late")

        def __init__(self) -> None:
            self._late = Late()

    made = list[str]()
    outer = Outer()
    assert made == []
    assert (outer.part, made) == ("the part", ["part"])
