"""A job whose limits, or limit and lock, live on several shards can never begin: it is refused, or buried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import simplejson
from daemon import Daemon, pyworkers
from harness_shards import ShardServers
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.shards.placement import Placement, key_of_slot
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.limit import Slot

PLACEMENT = Placement(["a", "b", "c"])


def limit_on(home: int, again: int = 0) -> str:
    """The name of a limit that lives on this shard."""
    names = (f"api{number}" for number in range(100))
    return [name for name in names if PLACEMENT.home(key_of_slot(Slot(name))) == home][again]


ON_A, ALSO_ON_A, ON_B = limit_on(0), limit_on(0, 1), limit_on(1)
JOBS = f"""
import goworkers_py as workers
one, other = workers.limit("{ON_A}", concurrent=5), workers.limit("{ON_B}", concurrent=5)

@workers.job("Both", queue="q", limits=[one, other])
def both(number): ...

@workers.job("Link", queue="q", limits=[other])
def link(number):
    print("ran", number, flush=True)
"""

pytestmark = [pytest.mark.server, pytest.mark.timeout(90)]


@pytest.fixture
def app(servers: ShardServers) -> Iterator[App]:
    app = App()
    app.configure(broker=servers.address)
    yield app
    app.broker.close()


def nothing(number: int) -> None: ...


def test_a_push_with_limits_on_different_shards_is_refused_and_each_is_named(app: App) -> None:
    limits = [app.limit(name, concurrent=5) for name in (ON_A, ON_B)]
    apart = app.job("Both", queue="q", limits=limits)(nothing)
    with pytest.raises(BrokerRefused, match=f"Both is not pushed: .*{ON_A} on shard a and {ON_B} on shard b"):
        apart.enqueue(1)
    with pytest.raises(BrokerRefused, match="is not pushed"):
        apart.enqueue_in(60, 1)
    assert app.broker.admin.queues() == []


def test_limits_of_one_shard_and_keys_of_one_shard_are_pushed(app: App) -> None:
    limits = [app.limit(name, concurrent=5) for name in (ON_A, ALSO_ON_A)]
    assert app.job("Both", queue="q", limits=limits)(nothing).enqueue(1)


PUSHES: dict[str, Callable[[App, object], object]] = {
    "a lock": lambda app, job: job.set(unique_for=60).enqueue(1),
    "a batch": lambda app, job: _in_batch(app, job),
    "a chain": lambda app, job: app.chain(job.s(1), job.s(2)).enqueue(),
}


def _in_batch(app: App, job: object) -> None:
    with app.batch("import"):
        job.enqueue(1)


@pytest.mark.parametrize("beside", PUSHES)
def test_a_push_with_a_limit_and_another_guarantee_is_refused(app: App, beside: str) -> None:
    job = app.job("One", queue="q", limits=[app.limit(ON_A, concurrent=5)])(nothing)
    with pytest.raises(BrokerRefused, match=f"a limit or {beside}, not both, and this has the limit {ON_A}"):
        PUSHES[beside](app, job)
    assert app.broker.admin.queues() == []


def test_where_it_arrives_all_the_same_it_is_dead_at_once_with_the_reason(
    tmp_path: Path, servers: ShardServers, app: App
) -> None:
    app.enqueue("q", "Both", [1])  # as Ruby does, which knows no limits
    link = app.job("Link", queue="q")(nothing)
    cids = [app.chain(link.s(0), link.s(0)).enqueue() for _ in range(12)]  # not all of them live beside the limit
    app.enqueue("q", "Link", [7])
    with Daemon(tmp_path, servers.address, JOBS, "--queue", "q=2") as daemon:
        daemon.ready()
        assert eventually(lambda: "ran 7" in daemon.output)
        assert eventually(lambda: {app.chains.status(cid).state for cid in cids} <= {"ended", "stopped"})
        assert daemon.stop() == 0
    told = {(one["class"], one["error_message"]) for one in dead(tmp_path, servers)}
    assert len(told) == 2
    assert f"{ON_B} on shard b and {ON_A} on shard a" in dict(told)["Both"]  # by name, as they are taken
    assert f"a limit or a chain, not both, and this has the limit {ON_B}" in dict(told)["Link"]


def dead(folder: Path, servers: ShardServers) -> list[dict[str, str]]:
    shown = pyworkers("dead", "list", "--json", "--broker", servers.address, cwd=folder)
    return [simplejson.loads(line)["job"] for line in shown.stdout.splitlines()]
