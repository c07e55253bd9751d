"""The fixtures of tests that run against every broker, see `harness`, except for tests of a capability that a broker
lacks. The conftest.py of a folder imports them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from cluster import Cluster
from harness import Harness, Process, Processes, can, foreign, part_of
from harnesses import (
    REFUSED,
    ClusterHarness,
    DirHarness,
    DisqueHarness,
    MemoryHarness,
    RabbitHarness,
    RedisHarness,
    TwoServersHarness,
)
from rabbit import let_the_node_pause

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.admin import Admin
from goworkers_py.brokers.contracts.control import Control
from goworkers_py.brokers.contracts.recoverable import Recoverable
from goworkers_py.brokers.contracts.store import Store
from goworkers_py.brokers.open_broker import kind_of_broker
from goworkers_py.brokers.redis.driver import connection
from goworkers_py.config.options import Config
from goworkers_py.features import FEATURES, feature_of
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.calls.contract import Calls
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.iteration.contract import Iterations
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.periodic.contract import Periodic
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.tracking.contract import Records
from goworkers_py.features.unique.contract import Locks

__all__ = [
    "admin", "control", "make_harness", "me", "other", "place_of_harness", "pytest_generate_tests", "records",
    "recoverable", "start", "store",
]  # fmt: skip

MakeHarness = Callable[[Path], Harness]


# The scheme of its broker, by the name of the harness.
OURS = {
    "memory": "memory", "dir": "dir", "redis": "redis", "cluster": "redis+cluster",
    "disque": "disque", "disque-protocol": "disque", "rabbitmq": "amqp", "rabbitmq+redis": "amqp",
}  # fmt: skip
WITHOUT_SERVER = ("memory", "dir")
# Measured, the tests of this folder take three times as long. So they are measured on the other brokers: these run much
# of the same code, and what is their own has tests of its own in tests/brokers.
NOT_MEASURED = ("dir", "cluster", "disque", "rabbitmq+redis")
# The contracts of features, of which brokers have parts.
CONTRACTS = [
    getattr(import_module(f"goworkers_py.features.{entry.name}.contract"), entry.contract)
    for entry in FEATURES
    if entry.contract
]
# By the name of a fixture, here or in a module, the capability or the part of a feature that it asks for.
NEEDS: dict[str, Capability | type] = {
    "admin": Capability.ADMIN, "batches": Batches, "calls": Calls, "cancels": Cancels,
    "chains": Chains, "control": Capability.CONTROL, "groups": Groups,
    "join": Leadership, "iterations": Iterations, "limits": Limits, "locks": Locks,
    "metrics": Capability.METRICS, "periodic": Periodic, "publisher": Locks,
    "records": Records, "recoverable": Capability.LEASES, "store": Capability.STORE,
}  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leaves out what would only be skipped: a third of these tests, each with a broker that is opened and closed."""
    if "make_harness" not in metafunc.fixturenames:
        return
    needed = {NEEDS[name] for name in metafunc.fixturenames if name in NEEDS}
    ours = [
        pytest.param(name, marks=() if name in WITHOUT_SERVER else pytest.mark.server)
        for name in OURS
        if needed.isdisjoint(_lacking(name))
    ]
    # Scope `session`: a server that a harness needs starts before the fixtures that check what a test leaves behind.
    metafunc.parametrize("make_harness", list(foreign()) or ours, indirect=True, scope="session")


@cache
def _lacking(harness: str) -> frozenset[Capability | type]:
    if harness == "rabbitmq+redis":
        return TwoServersHarness.left_out
    kind = kind_of_broker(Config(broker=f"{OURS[harness]}://"))
    parts = {contract for contract in CONTRACTS if kind.part_maker(feature_of(contract)) is None}
    return frozenset({*Capability} - {*kind.capabilities} | parts)


@pytest.fixture(scope="session")
def make_harness(request: pytest.FixtureRequest) -> MakeHarness:
    if request.param in foreign():
        return foreign()[request.param]
    if request.param == "memory":
        return MemoryHarness
    if request.param == "dir":
        return DirHarness
    if request.param.startswith("disque"):
        server = request.getfixturevalue("disque_servers")[request.param]()
        return lambda folder: DisqueHarness(server)
    if request.param.startswith("rabbitmq"):
        return _on_rabbitmq(request)
    if request.param == "cluster":
        cluster: Cluster = request.getfixturevalue("cluster")
        return lambda folder: ClusterHarness(cluster)
    address = request.getfixturevalue("redis_server")
    return lambda folder: RedisHarness(address)


def _on_rabbitmq(request: pytest.FixtureRequest) -> MakeHarness:
    server = request.getfixturevalue("rabbit_server")
    if request.param == "rabbitmq":
        return lambda folder: RabbitHarness(server)
    address = request.getfixturevalue("redis_server")
    return lambda folder: TwoServersHarness(server, address)


@pytest.fixture(autouse=True)
def place_of_harness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HASTE_S", 20.0)  # a wake must not fail on a busy machine
    item = request.node
    harness = item.callspec.params.get("make_harness") if hasattr(item, "callspec") else None
    if harness in NOT_MEASURED:
        request.getfixturevalue("untraced")
    if harness in ("rabbitmq", "rabbitmq+redis"):
        let_the_node_pause(monkeypatch)
    if harness == "rabbitmq+redis" and item.originalname in REFUSED:
        pytest.skip(REFUSED[item.originalname])


@pytest.fixture
def start(make_harness: MakeHarness, tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(make_harness(tmp_path))
    yield processes
    processes.close()


@pytest.fixture
def me(start: Processes) -> Process:
    return start()


@pytest.fixture
def other(start: Processes) -> Process:
    return start()


# --- parts that a broker may lack; the test is then left out, or skipped for a harness of another package


@pytest.fixture
def store(me: Process) -> Store:
    return can(me.broker, Capability.STORE).store


@pytest.fixture
def recoverable(me: Process) -> Recoverable:
    return can(me.broker, Capability.LEASES).recoverable


@pytest.fixture
def control(me: Process) -> Control:
    return can(me.broker, Capability.CONTROL).control


@pytest.fixture
def admin(me: Process) -> Admin:
    return can(me.broker, Capability.ADMIN).admin


@pytest.fixture
def records(me: Process) -> Records:
    return part_of(me.broker, Records)
