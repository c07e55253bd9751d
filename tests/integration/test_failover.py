"""A primary that dies, or falls silent, under three sentinels: what goes on, what is kept, and what is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import redis as redis_py
from apps import in_progress, own_app
from daemon import Daemon, pyworkers
from fleet import Fleet
from sentinels import SERVICE, Sentinels
from servers import RedisServer, free_port
from waiting import eventually

from goworkers_py.brokers.redis.driver import connection
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.sentinel import SENTINEL_TIMEOUT_S
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable

BACK_WITHIN_S = 15.0  # some seconds, and a pause of the machine
BEGINS, ENDS = "Redis cannot serve", "Redis serves again"
PASSWORD, SENTINEL_PASSWORD = "of-the-servers", "of-the-sentinels"


class Pushed(NamedTuple):
    jid: str
    begun: float  # on the monotonic clock
    acknowledged: float


class Producer(AbstractContextManager["Producer"]):
    """A program that enqueues, on the same address as the daemon, and pushes anew what was not acknowledged."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.pushed: list[Pushed] = []  # an append is one step

    def acknowledged(self, from_s: float, to_s: float) -> set[str]:
        return {push.jid for push in self.pushed if push.begun > from_s and push.acknowledged < to_s}

    def _run(self) -> None:
        with own_app(self._url) as app:
            while not self._ends.wait(0.005):
                begun = time.monotonic()
                try:
                    jid = app.enqueue("q", "Short", [0.01])
                except BrokerUnavailable:
                    continue
                assert jid is not None
                self.pushed.append(Pushed(jid, begun, time.monotonic()))

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def __enter__(self) -> Producer:  # noqa: PYI034  # typing.Self is of Python 3.11
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def all_replicated(client: redis_py.Redis) -> float:
    """Returns when both replicas have everything that was acknowledged before the call, and when that was."""
    called = time.monotonic()
    with client.pipeline(transaction=False) as pipeline:
        # WAIT looks at what its own connection has written last: this, after all that.
        assert pipeline.set("marker", 1).wait(2, 15_000).execute() == [True, 2]
    return called


def is_replica(client: redis_py.Redis) -> bool:
    try:
        return bool(client.info("replication")["role"] == "slave")
    except redis_py.ConnectionError:  # its clients are cut off when it becomes one
        return False


def assert_full_concurrency(fleet: Fleet, since: float) -> None:
    """As many jobs as there are threads run at the same time."""
    for number in range(5):
        fleet.push(f"meeting{number}", "Meeting", "all", 5, first=True)
    assert eventually(lambda: set(fleet.count("met")) == {f"meeting{number}" for number in range(5)}), fleet.told()
    assert max(run.at for run in fleet.of("met")) - since < BACK_WITHIN_S


def assert_all_have_run(fleet: Fleet, jids: set[str], sentinels: Sentinels, elections: int = 1) -> None:
    if not eventually(lambda: jids <= set(fleet.count("began"))):
        if sentinels.elections > elections:
            pytest.skip("the sentinels took a primary for dead that lived: this machine is too slow for them")
        raise AssertionError((jids - set(fleet.count("began")), fleet.told()))
    assert eventually(lambda: not fleet.redis.exists("queue:q") and not in_progress(fleet.redis)), fleet.told()
    assert not fleet.redis.exists("retry", "dead")


def assert_one_pair_of_lines(daemon: Daemon) -> None:
    # A thread that looks seldom may be the last one to see that it is over.
    assert eventually(lambda: daemon.output.count(ENDS) > 0, 30), daemon.output
    assert (daemon.output.count(BEGINS), daemon.output.count(ENDS)) == (1, 1), daemon.output
    assert daemon.output.count(" ERROR: ") == 1, daemon.output
    assert "Traceback" not in daemon.output


@pytest.mark.timeout(180)
def test_when_the_primary_is_killed_under_load_everything_goes_on_and_what_was_replicated_runs(tmp_path: Path) -> None:
    with Sentinels() as sentinels, Fleet(tmp_path, sentinels.url, sentinels.client(sentinels.primary)) as fleet:
        daemon = fleet.start("-q", "q=5").ready()
        fleet.push("long", "Gated", "gate")
        fleet.await_run("began", "long")
        for number in range(200):  # more than are run until the end of the primary
            fleet.push(f"waiting{number}", "Short", 0.02)
        with Producer(sentinels.url) as producer:
            assert eventually(lambda: len(producer.pushed) > 50)
            kept = producer.acknowledged(0, all_replicated(fleet.redis))
            before = time.monotonic()
            new = sentinels.fail_over()
            elected = time.monotonic()
            fleet.redis = sentinels.client(new)
            fleet.open("gate")  # it was begun on the old primary and is settled on the new one
            assert_full_concurrency(fleet, elected)
            assert eventually(lambda: len(producer.acknowledged(elected, float("inf"))) > 50)
        waiting = {f"waiting{number}" for number in range(200)}
        # What was pushed in the last instant before the kill may be lost with the old primary, and nothing else.
        assert_all_have_run(fleet, kept | waiting | {"long"} | producer.acknowledged(before, float("inf")), sentinels)
        assert fleet.count("began")["long"] == 1
        assert_one_pair_of_lines(daemon)
        assert daemon.stop() == 0


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_nothing_acknowledged_is_lost_with_a_primary_that_falls_silent_and_comes_back_where_it_needs_a_replica(
    tmp_path: Path,
) -> None:
    """For a while there are two primaries. The old one, without replicas, refuses to write."""
    options = {"min_replicas_to_write": "1", "min_replicas_max_lag": "2"}
    with (
        Sentinels(**options) as sentinels,
        Fleet(tmp_path, sentinels.url, sentinels.client(sentinels.primary)) as fleet,
    ):
        old, client, daemon = sentinels.primary, fleet.redis, fleet.start("-q", "q=5").ready()
        with Producer(sentinels.url) as producer:
            assert eventually(lambda: len(producer.pushed) > 50)
            kept = producer.acknowledged(0, all_replicated(fleet.redis))
            fleet.redis = sentinels.client(sentinels.fail_over(RedisServer.pause))
            elected = time.monotonic()
            old.resume()
            assert_full_concurrency(fleet, elected)
            assert eventually(lambda: is_replica(client), 30)
            assert eventually(lambda: len(producer.acknowledged(elected, float("inf"))) > 50)
        # What was under way while the old primary was silent may be acknowledged by it and lost: a replica's last word
        # holds for min-replicas-max-lag.
        assert_all_have_run(fleet, kept | producer.acknowledged(elected, float("inf")), sentinels)
        assert daemon.stop() == 0


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_one_failover_after_another_is_survived_by_several_processes(tmp_path: Path) -> None:
    with Sentinels() as sentinels, Fleet(tmp_path, sentinels.url, sentinels.client(sentinels.primary)) as fleet:
        daemons = [fleet.start("-q", "q=3").ready() for _ in range(2)]
        sentinels.sentinels[0].kill()  # that to be asked first; two of three are enough to elect
        with Producer(sentinels.url) as producer:
            kept: set[str] = set()
            for _ in range(2):
                pushed = len(producer.pushed)
                assert eventually(lambda pushed=pushed: len(producer.pushed) > pushed + 50)
                kept |= producer.acknowledged(0, all_replicated(fleet.redis))
                old = sentinels.primary
                fleet.redis = sentinels.client(sentinels.fail_over())
                elected = time.monotonic()
                assert eventually(lambda elected=elected: producer.acknowledged(elected, float("inf")))
                old.start()  # a sentinel makes it a replica
                sentinels.await_replication()
        assert_all_have_run(fleet, kept, sentinels, elections=2)
        for daemon in daemons:
            assert daemon.output.count(BEGINS) == daemon.output.count(ENDS) == 2, daemon.output
            assert daemon.stop() == 0


# --- addresses


@pytest.fixture(scope="module")
def guarded() -> Iterator[Sentinels]:
    """Servers and sentinels with passwords, not the same ones."""
    with Sentinels(PASSWORD, SENTINEL_PASSWORD) as sentinels:
        yield sentinels


def address(guarded: Sentinels, password: str = PASSWORD, own: str = SENTINEL_PASSWORD, service: str = SERVICE) -> str:
    login = f":{password}@" if password else ""
    query = f"?sentinel_password={own}" if own else ""
    return f"sentinel://{login}{guarded.hosts}/{service}/0{query}"


def ping(url: str) -> object:
    with closing(Connections(url)) as connections:
        return connections.call("PING")


def test_servers_and_sentinels_may_have_different_passwords(guarded: Sentinels) -> None:
    assert PASSWORD != SENTINEL_PASSWORD
    assert ping(address(guarded)) == b"PONG"


@pytest.mark.parametrize("own", ["", "wrong-one"])
def test_a_sentinel_that_refuses_the_login_is_told_from_a_server_that_does(guarded: Sentinels, own: str) -> None:
    with pytest.raises(BrokerRefused, match=r"that is a sentinel's own login \(.*sentinel_password=") as caught:
        ping(address(guarded, own=own))
    assert "wrong-one" not in str(caught.value)
    assert "HELLO" not in str(caught.value)


@pytest.mark.parametrize("password", ["", "wrong-one"])
def test_a_server_that_refuses_the_login_is_told_from_a_sentinel_that_does(guarded: Sentinels, password: str) -> None:
    with pytest.raises(BrokerRefused, match="refused the login") as caught:
        ping(address(guarded, password=password))
    assert "sentinel" not in str(caught.value)
    assert "wrong-one" not in str(caught.value)


@contextmanager
def killed(guarded: Sentinels) -> Iterator[str]:
    """Nobody listens at its address."""
    yield guarded.hosts.replace(str(guarded.sentinels[0].port), str(free_port()))


@contextmanager
def silent(guarded: Sentinels) -> Iterator[str]:
    guarded.sentinels[0].pause()
    try:
        yield guarded.hosts
    finally:
        guarded.sentinels[0].resume()


@pytest.mark.parametrize("trouble", [killed, silent], ids=lambda trouble: trouble.__name__)
def test_a_sentinel_that_does_not_answer_is_passed_over_and_not_asked_first_again(
    guarded: Sentinels, trouble: Callable[[Sentinels], AbstractContextManager[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    ask = redis_py.Redis.sentinel_masters

    def noted(sentinel: redis_py.Redis) -> object:
        asked.append(sentinel.connection_pool.connection_kwargs["port"])
        return ask(sentinel)

    monkeypatch.setattr(redis_py.Redis, "sentinel_masters", noted)
    monkeypatch.setattr(connection, "HASTE_S", 20.0)  # this test is not about haste
    with trouble(guarded) as hosts, closing(Connections(address(guarded).replace(guarded.hosts, hosts))) as connections:
        first = int(hosts.partition(",")[0].rpartition(":")[2])
        began = time.monotonic()
        assert connections.call("PING") == b"PONG"
        assert time.monotonic() - began < SENTINEL_TIMEOUT_S + 15
        assert asked.index(first) == 0
        before = len(asked)
        assert connections.call_hastily("PING") == b"PONG"  # on another connection
        assert len(asked) > before
        assert asked.count(first) == 1


def test_the_name_of_a_service_that_no_sentinel_knows_is_told(guarded: Sentinels) -> None:
    done = pyworkers("enqueue", "J", PYWORKERS_REDIS=address(guarded, service="jobz"))
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr == "pyworkers: no server: 3 of 3 sentinels answer, none knows a primary 'jobz'\n"


def test_without_any_sentinel_each_of_them_is_told_of_and_no_password(guarded: Sentinels, tmp_path: Path) -> None:
    nowhere = address(guarded).replace(guarded.hosts, "127.0.0.1:1,127.0.0.1:2")
    with Daemon(tmp_path, nowhere, "", "-q", "q") as daemon:
        told = daemon.says(BEGINS)
        assert "0 of 2 sentinels answer" in told
        assert "127.0.0.1:1" in told
        assert "127.0.0.1:2" in told
        assert daemon.stop() == 0
        assert PASSWORD not in daemon.output
        assert SENTINEL_PASSWORD not in daemon.output
