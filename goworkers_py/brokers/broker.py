"""A broker holds the jobs of a fleet. The rest of the program uses its parts through their contracts only."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from goworkers_py.core.errors import ConfigError
from goworkers_py.core.values import NamedTuple
from goworkers_py.features import feature_of

if TYPE_CHECKING:
    from goworkers_py.brokers.contracts.admin import Admin
    from goworkers_py.brokers.contracts.control import Control
    from goworkers_py.brokers.contracts.death_clues import DeathClues
    from goworkers_py.brokers.contracts.metrics import Metrics
    from goworkers_py.brokers.contracts.neighbours import Neighbours
    from goworkers_py.brokers.contracts.recoverable import Recoverable
    from goworkers_py.brokers.contracts.store import Store
    from goworkers_py.brokers.contracts.transport import Transport
    from goworkers_py.config.options import Config
    from goworkers_py.core.fence import Fence
    from goworkers_py.features.feature import Feature, PartMaker

P = TypeVar("P")


class Reliability(NamedTuple):
    """The losses that a broker can have of jobs whose push was confirmed, in words, for the table that
    `pyworkers brokers` prints."""

    worker_killed: str = "not told"  # a process that has fetched jobs is killed
    server_killed: str = "not told"  # the process of the server is killed and started again
    power_failure: str = "not told"  # the machine of the server loses its power
    network_cut: str = "not told"  # between a process and the server


class Capability(enum.Enum):
    """A thing that a broker can do beyond a transport. Error messages show the value to people."""

    DELAYS = "jobs that wait for a time"  # in the store, or in the service itself
    STORE = "store"  # has `store`
    FRONT = "the front of a queue for jobs that are given back"  # without it they come soon, not next
    LEASES = "recovery of the jobs of dead processes"  # has `recoverable`
    CONTROL = "commands to processes"  # has `control`
    ADMIN = "lists of jobs"  # has `admin`
    METRICS = "runs of each class by the minute"  # has `metrics`
    ORDER = "jobs in the order of their pushes"  # those of a queue; without it, they are in this order as a rule only
    SHARED = "jobs that several processes share"  # what one process publishes, another can consume
    LASTING = "jobs that outlive their process"  # a power failure is another matter: say in your docs what it loses

    __hash__ = object.__hash__  # each push asks; that of Enum is written in Python, and members are singletons


class Broker:
    """The base class of every broker. One object serves all threads of a process.

    A subclass lists what it can do in `capabilities`. It sets `transport`, and the parts of these capabilities as
    attributes; it does not set the parts of the others. `part` returns the parts of features.

    A broker says in one of three ways what it lacks:

    - A part of the engine that a daemon or people need: it is not set, and `capabilities` lacks its capability.
      `require` raises ConfigError. The check of a configuration asks the class, before a broker is opened.
    - A part of a feature: `part` returns None, and `require_part` raises ConfigError. The engine knows no feature, so
      there is no capability for it.
    - `neighbours`, `death_clues` and `fence` are None: the program does without, and nobody chooses a broker by them.

    Another package adds a broker with an entry point, which is named like the scheme of the broker's addresses:

        [options.entry_points]
        goworkers_py.brokers =
            files = their_package.broker:FilesBroker
    """

    name: str  # for people: "Redis". Sentences of the log begin with it
    capabilities: Collection[Capability] = frozenset()
    # A feature has its part for a family of brokers: `redis`, or `memory`. Empty: for none.
    family: str = ""
    # The parts that the broker itself has for features, by their contracts; they go before those of its family:
    # own_parts = {Limits: lambda broker: FilesLimits(broker.folder)}
    own_parts: Mapping[type, PartMaker] = MappingProxyType({})
    # Whether its server delivers a job again by itself when the connection of the consumer has gone. Then a daemon does
    # without leases, control and a store: `brokers.absent` has stand-ins for these.
    redelivers: bool = False
    # Whether its server itself gives the jobs of a queue to one process at a time, where `standby` is set. Then a
    # daemon needs no fence for that.
    one_consumer: bool = False
    # For the table of brokers: what it can lose.
    reliability: Reliability = Reliability()
    remedy = "set another broker"  # what to do where a capability is missing
    transport: Transport
    store: Store
    recoverable: Recoverable
    control: Control
    admin: Admin
    metrics: Metrics
    neighbours: Neighbours | None = None
    # Of a broker that delivers jobs again by itself. Without them it buries no job that kills its processes.
    death_clues: DeathClues | None = None
    # The parts of features that were made. Any thread sets it, in one step; two threads may make the same part.
    _parts: Mapping[type, Any] = MappingProxyType({})
    fence: Fence | None = None  # every write of this broker passes it, see `open_fenced`

    @classmethod
    def open(cls, config: Config) -> Broker:
        """Returns the broker at the address `config.broker`, without asking its server: the first verb does that.

        Raises ConfigError as `check` does. Called again with the same address, it returns a broker on the same jobs.
        """
        raise NotImplementedError

    @classmethod
    def open_fenced(cls, config: Config, fence: Fence) -> Broker:
        """Like `open`, for one term: the server refuses every write when the term is over, and the verb raises Fenced.
        A broker that cannot do this has no part of a feature that opens fences."""
        raise NotImplementedError

    @classmethod
    def check(cls, config: Config) -> None:
        """Raises ConfigError for an address or an option that cannot be right. Starts nothing and asks no server."""

    @classmethod
    def access_rules(cls, config: Config, producer: bool = False) -> list[str]:
        """Returns the lines with which an administrator gives a user of the server the rights that this configuration
        needs; for a `producer` those of a program that pushes and runs no jobs. Raises ConfigError for a broker without
        such rules."""
        raise ConfigError(f"broker: {config.broker.partition('://')[0]} has no access rules")

    @classmethod
    def part_maker(cls, feature: Feature) -> PartMaker | None:
        """None for a feature of which this kind of broker has no part."""
        own = (make for contract, make in cls.own_parts.items() if contract.__name__ == feature.contract)
        return next(own, None) or feature.part(cls.family)

    def part(self, contract: type[P]) -> P | None:
        """The broker's part of a feature, by its contract: `broker.part(Limits)`. None when it has none. The part is
        made when somebody asks for it for the first time."""
        parts = self._parts
        if contract not in parts:
            make = self.part_maker(feature_of(contract))
            self._parts = parts = {**parts, contract: None if make is None else make(self)}
        found: P | None = parts[contract]
        return found

    def require_part(self, contract: type[P]) -> P:
        """Raises ConfigError when this broker has no such part."""
        part = self.part(contract)
        if part is None:
            raise ConfigError(f"broker: {self.name} has no {feature_of(contract).kept}: {self.remedy}")
        return part

    def require(self, *needed: Capability) -> None:
        """Raises ConfigError when this broker lacks one of the `needed` capabilities."""
        if lacking := [capability.value for capability in needed if capability not in self.capabilities]:
            raise ConfigError(f"broker: {self.name} has no {' and no '.join(lacking)}: {self.remedy}")

    def warn_at_start(self) -> None:
        """Logs a warning for each setting that may lose jobs. A daemon calls it once, after the server has answered."""

    def close(self) -> None:
        """Closes all connections. It may be called again. After it only `admin` may still be called, for a page that
        somebody opens just then: that answers, or raises BrokerUnavailable."""
