"""The table of the kinds of brokers: their abilities and the jobs that they can lose, as the brokers say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.brokers.broker import Broker, Capability, Reliability
from goworkers_py.core.values import dataclass
from goworkers_py.features import FEATURES

EVENTS = {
    "worker_killed": "a worker is killed",
    "server_killed": "the server is killed",
    "power_failure": "the server's power fails",
    "network_cut": "the network is cut",
}


@dataclass(frozen=True)
class BrokerRow:
    schemes: tuple[str, ...]
    kind: type[Broker]

    @property
    def title(self) -> str:
        return ", ".join(self.schemes)

    @property
    def reliability(self) -> Reliability:
        return self.kind.reliability

    def can(self) -> dict[str, bool]:
        """An ability of a broker, in words, and whether this kind can."""
        engine = {capability.value: capability in self.kind.capabilities for capability in Capability}
        return engine | {
            feature.kept: self.kind.part_maker(feature) is not None for feature in FEATURES if feature.kept
        }

    def _features(self) -> dict[str, bool]:
        """By short names, for programs."""
        names = [
            *(capability.name for capability in Capability),
            *(feature.contract for feature in FEATURES if feature.kept),
        ]
        return {name.lower(): can for name, can in zip(names, self.can().values(), strict=True)}

    def as_dict(self) -> dict[str, Any]:
        return {
            "schemes": self.schemes,
            "features": self._features(),
            "can_lose": self.reliability._asdict(),
        }


def broker_rows(brokers: Mapping[str, type[Broker]]) -> list[BrokerRow]:
    """One row for each kind of broker, with all schemes that open it."""
    by_kind: dict[type[Broker], list[str]] = {}
    for scheme, kind in brokers.items():
        by_kind.setdefault(kind, []).append(scheme)
    return [BrokerRow(tuple(schemes), kind) for kind, schemes in by_kind.items()]
