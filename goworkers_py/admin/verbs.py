"""The base of each part of the inspector: it asks the broker anew at every call."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.policy.registry import Registry


class Verbs:
    def __init__(self, broker: Callable[[], Broker], registry: Registry | None = None) -> None:
        """`broker` is called anew by each method. `registry` has what the program declares; None: nothing."""
        self._find_broker = broker
        self._registry = Registry() if registry is None else registry

    @property
    def _broker(self) -> Broker:
        return self._find_broker()

    @property
    def _admin(self) -> Admin:
        broker = self._broker
        broker.require(Capability.ADMIN)
        return broker.admin

    def has(self, capability: Capability | type) -> bool:
        """Whether the broker can do this, such as `inspector.has(Capability.METRICS)`, or has this part of a feature,
        such as `inspector.has(Locks)`."""
        if isinstance(capability, Capability):
            return capability in self._broker.capabilities
        return self._broker.part(capability) is not None
