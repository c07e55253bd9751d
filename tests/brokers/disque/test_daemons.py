"""Real daemons on Disque: jobs run, are retried and buried; a stop gives them back, and a kill loses none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from broker_site import BrokerSite
from disque_server import DisqueServer
from waiting import eventually

pytestmark = pytest.mark.server


@pytest.fixture(scope="session", params=["disque", "disque-protocol"])
def server(request: pytest.FixtureRequest, disque_servers: dict[str, Callable[[], DisqueServer]]) -> DisqueServer:
    return disque_servers[request.param]()


class Site(BrokerSite):
    def __init__(self, folder: Path, address: str, client: redis.Redis) -> None:
        super().__init__(folder, address)
        self._client = client

    def size(self, queue: str) -> int:
        return int(self._client.execute_command("QLEN", queue))

    def close(self) -> None:
        self.app.broker.close()


@pytest.fixture
def options() -> str:
    """Of the address. With a short `retry`, a pause of the machine would bring a job again while it runs."""
    return ""


@pytest.fixture
def site(tmp_path: Path, server: DisqueServer, options: str) -> Iterator[Site]:
    server.forget_jobs()
    with server.client() as client:
        site = Site(tmp_path, f"{server.url}{options}", client)
        yield site
        site.close()


def test_jobs_run_are_retried_and_are_buried(site: Site) -> None:
    for name, fails in (("good", 0), ("retried", 1), ("dead", 0)):
        site.push("note", name, fails)
    with site.daemon() as daemon:
        assert eventually(lambda: sorted(site.ran) == ["dead", "good", "retried", "retried"])
        assert eventually(lambda: site.size("pyworkers.dead") == 1)
        assert daemon.stop() == 0
    assert site.size("q") == 0


def test_a_stop_gives_unfinished_jobs_back_at_once(site: Site) -> None:
    for name in ("1", "2", "3"):
        site.push("wait", name)
    with site.daemon("--timeout", "1") as daemon:
        assert eventually(lambda: len(site.ran) == 2)
        assert daemon.stop() == 0
    assert site.size("q") == 3


@pytest.mark.parametrize("options", ["?retry=4"])
@pytest.mark.timeout(120)
def test_the_job_of_a_killed_daemon_runs_in_another_one_after_its_retry(site: Site) -> None:
    site.push("wait", "end")
    with site.daemon() as first:
        assert eventually(lambda: site.ran)
        with site.daemon() as second:
            first.kill()
            assert eventually(lambda: len(site.ran) >= 2, 40)  # more runs after a pause of the machine
            (site.folder / "end").touch()
            second.says("INFO: done")
            assert second.stop() == 0
    assert site.size("q") == 0
