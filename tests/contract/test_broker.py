"""A broker has the parts of its capabilities, and its address finds it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import ClassVar

import pytest
from harness import Process

from goworkers_py.brokers import open_broker as opening
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.open_broker import kind_of_broker, open_broker
from goworkers_py.config.options import Config
from goworkers_py.core.errors import ConfigError
from goworkers_py.features import FEATURES
from goworkers_py.features.feature import Feature
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.unique.contract import Locks

PARTS = {
    "store": Capability.STORE, "recoverable": Capability.LEASES, "control": Capability.CONTROL,
    "admin": Capability.ADMIN, "metrics": Capability.METRICS,
}  # fmt: skip


def test_a_broker_has_a_transport_and_a_name(me: Process) -> None:
    assert me.broker.transport
    assert me.broker.name


def test_a_broker_has_the_parts_of_its_capabilities_and_no_others(me: Process) -> None:
    assert _wrong_parts(me.broker) == []


def _wrong_parts(broker: Broker) -> list[str]:
    told = []
    for part, capability in PARTS.items():
        has, says_so = getattr(broker, part, None) is not None, capability in broker.capabilities
        if says_so and not has:
            told.append(f"{broker.name} declares {capability.name}, but has no `{part}`: leave {capability.name} out")
        elif has and not says_so:
            told.append(f"{broker.name} has `{part}`, but does not declare {capability.name}: add it to `capabilities`")
    return told


@pytest.mark.parametrize("capability", Capability)
def test_require_raises_for_each_capability_that_a_broker_lacks(me: Process, capability: Capability) -> None:
    if capability in me.broker.capabilities:
        me.broker.require(capability)
    else:
        with pytest.raises(ConfigError, match=f"{me.broker.name} has no {capability.value}"):
            me.broker.require(capability)


def test_a_broker_is_found_by_its_address_and_takes_it(me: Process) -> None:
    kind = kind_of_broker(me.config)
    kind.check(me.config)
    assert isinstance(me.broker, kind)


def test_a_broker_warns_and_closes_without_an_error(me: Process) -> None:
    me.broker.warn_at_start()
    me.broker.close()


# --- how brokers are found


def test_an_address_with_an_unknown_scheme_is_an_error_that_names_the_known_schemes() -> None:
    with pytest.raises(ConfigError, match=r"for gopher://; there are brokers for .*memory, .*redis"):
        open_broker(Config(broker="gopher://localhost"))


class OtherBroker(Broker):
    name = "other"
    capabilities = frozenset({Capability.SHARED})

    @classmethod
    def open(cls, config: Config) -> Broker:
        return cls()


def test_a_capability_without_its_part_is_told() -> None:
    broker = OtherBroker()
    assert _wrong_parts(broker) == []
    broker.capabilities = frozenset({Capability.ADMIN})
    assert _wrong_parts(broker) == ["other declares ADMIN, but has no `admin`: leave ADMIN out"]
    broker.store = None  # type: ignore[assignment]
    broker.recoverable = object()  # type: ignore[assignment]
    broker.admin = None  # type: ignore[assignment]
    assert _wrong_parts(broker) == [
        "other has `recoverable`, but does not declare LEASES: add it to `capabilities`",
        "other declares ADMIN, but has no `admin`: leave ADMIN out",
    ]


@pytest.mark.parametrize("feature", [one for one in FEATURES if one.contract], ids=lambda one: one.name)
def test_a_part_of_a_feature_is_one_object_and_a_broker_without_it_is_refused(me: Process, feature: Feature) -> None:
    contract = getattr(import_module(f"goworkers_py.features.{feature.name}.contract"), feature.contract)
    if (part := me.broker.part(contract)) is not None:
        assert me.broker.part(contract) is me.broker.require_part(contract) is part
    else:
        with pytest.raises(ConfigError, match=f"{me.broker.name} has no {feature.kept}: "):
            me.broker.require_part(contract)


def test_a_broker_of_another_package_has_its_own_parts() -> None:
    class Keeping(OtherBroker):
        own_parts: ClassVar = {Locks: lambda broker: ("the locks of", broker)}

    broker = Keeping()
    assert broker.part(Locks) == ("the locks of", broker)
    assert broker.part(Limits) is None
    with pytest.raises(ConfigError, match="broker: other has no limits of jobs: set another broker"):
        broker.require_part(Limits)


def test_a_broker_that_lists_no_capability_has_none() -> None:
    assert not Broker.capabilities


def test_an_installed_package_adds_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EntryPoint("other", "there:OtherBroker", opening.GROUP)
    monkeypatch.setattr(opening, "_installed", lambda: {"other": other})
    monkeypatch.setitem(sys.modules, "there", SimpleNamespace(OtherBroker=OtherBroker))
    broker = open_broker(Config(broker="other://somewhere"))
    assert type(broker) is OtherBroker
    with pytest.raises(ConfigError, match="other has no jobs that wait for a time and no lists of jobs: set"):
        broker.require(Capability.DELAYS, Capability.SHARED, Capability.ADMIN)
    with pytest.raises(AttributeError, match="'OtherBroker' object has no attribute 'store'"):
        print(broker.store)
    with pytest.raises(ConfigError, match=r"gopher://; there are brokers for .*memory, other, redis"):
        open_broker(Config(broker="gopher://localhost"))
