"""A real daemon on RabbitMQ with a Redis beside it: the features of Redis, and no job lost when one of them is away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from daemon import Daemon, pyworkers
from rabbit import RabbitNode, errors
from raw_proxy import RawProxy
from servers import RedisServer
from waiting import eventually

from goworkers_py import EnqueueOptions
from goworkers_py.admin.places import RETRIES, SCHEDULED
from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.two_servers.broker import TwoServers
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core.errors import ConfigError

pytestmark = pytest.mark.server


JOBS = """
    import pathlib, time
    import goworkers_py as workers

    def note(word, text):
        with pathlib.Path("done").open("a") as done:
            done.write(f"{word} {text}\\n")

    @workers.job("Work", queue="q")
    def work(number, seconds=0):
        note("began", number)
        time.sleep(seconds)
        note("ended", number)
        return number

    @workers.job("Fails", queue="q")
    def fails(number, seconds):
        note("failed", number)
        if workers.current_message().retry_count is None:
            raise workers.RetryJob("once", delay=seconds)
        note("ended", number)

    @workers.job("Pushes", queue="q", atomic=True)
    def pushes(first, count):
        for number in range(first, first + count):
            work.enqueue(number)
"""


def done(folder: Path, word: str = "ended") -> list[int]:
    path = folder / "done"
    lines = path.read_text().splitlines() if path.exists() else []
    return [int(line.split(" ", 1)[1]) for line in lines if line.startswith(f"{word} ")]


def start(folder: Path, broker: str, store: str, *flags: str) -> Daemon:
    return Daemon(folder, broker, JOBS, "-q", "q=5", *flags, changes={"PYWORKERS_STORE": store})


@contextmanager
def app_of(broker: str, store: str = "") -> Iterator[App]:
    app = App()
    app.use(Config(broker=broker, store=store, queues=(QueueConfig("q"),)))
    yield app
    app.use(app.config)  # closes its connections


@pytest.fixture
def app(rabbit_url: str, redis_url: str) -> Iterator[App]:
    with app_of(rabbit_url, redis_url) as app:
        yield app


def test_jobs_of_both_servers_run_in_one_pool(app: App, rabbit_url: str, redis_url: str, tmp_path: Path) -> None:
    with start(tmp_path, rabbit_url, redis_url).ready() as daemon, app_of(redis_url) as of_redis_only:
        app.enqueue("q", "Work", [1])
        app.enqueue_in("q", "Work", 0.3, [2])
        of_redis_only.enqueue("q", "Work", [3])
        app.enqueue("q", "Fails", [4, 0.3])
        app.enqueue("q", "Pushes", [5, 3])
        jid = str(app.enqueue_with_options("q", "Work", [8], EnqueueOptions(retain=60)))
        with app.batch("some") as batch:
            app.enqueue("q", "Work", [9])
        assert eventually(lambda: sorted(done(tmp_path)) == [*range(1, 10)]), daemon.output
        assert app.result(jid, timeout=20) == 8
        assert eventually(lambda: (status := batch.status()) is not None and status.succeeded == 1)
        assert eventually(lambda: app.inspector.stats().processed == 11), "runs of both servers are counted"
        assert daemon.stop() == 0
        assert not errors(daemon.output), daemon.output


def test_people_see_and_change_what_waits_in_the_store(
    app: App, rabbit_url: str, redis_url: str, tmp_path: Path
) -> None:
    told = {"PYWORKERS_BROKER": rabbit_url, "PYWORKERS_STORE": redis_url}
    with start(tmp_path, rabbit_url, redis_url).ready() as daemon:
        app.enqueue("q", "Fails", [1, 600])
        app.enqueue_in("q", "Work", 600, [2])
        assert eventually(lambda: app.inspector.count(RETRIES) == app.inspector.count(SCHEDULED) == 1), daemon.output
        assert "Fails" in pyworkers("retries", "list", **told).stdout
        assert "q" in pyworkers("processes", "list", **told).stdout
        for place in ("retries", "scheduled"):
            moved = pyworkers(place, "retry", "--all", "--yes", **told)
            assert moved.returncode == 0, moved.stderr
        assert eventually(lambda: sorted(done(tmp_path)) == [1, 2]), daemon.output
        assert daemon.stop() == 0


def test_jobs_of_a_daemon_that_is_killed_run_in_another(
    app: App, rabbit_url: str, redis_url: str, tmp_path: Path
) -> None:
    for number in range(0, 300, 3):
        app.enqueue("q", "Work", [number, 0.02])
        app.enqueue_in("q", "Work", 0.01, [number + 1, 0.02])
        app.enqueue("q", "Fails", [number + 2, 0.1])
    killed = start(tmp_path, rabbit_url, redis_url)
    assert eventually(lambda: len(done(tmp_path)) > 40), killed.output
    killed.kill()
    with start(tmp_path, rabbit_url, redis_url, "--poll-interval", "0.2") as daemon:
        assert eventually(lambda: {*done(tmp_path)} == {*range(300)}), daemon.output
        assert daemon.stop() == 0
    assert app.inspector.stats().in_progress == 0


def test_an_outage_of_either_server_loses_no_job(
    own_redis: RedisServer, rabbit_url: str, rabbit_server: RabbitNode, tmp_path: Path
) -> None:
    with RawProxy(rabbit_server.port) as proxy, app_of(rabbit_url, own_redis.url) as app:
        broker = rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/")
        with start(tmp_path, broker, own_redis.url, "--poll-interval", "0.2").ready() as daemon:

            def push(first: int) -> None:
                for number in range(first, first + 60, 3):
                    app.enqueue("q", "Work", [number, 0.01])
                    app.enqueue_in("q", "Work", 0.01, [number + 1])
                    app.enqueue("q", "Fails", [number + 2, 0.1])

            push(0)
            proxy.refuse()
            app.enqueue_in("q", "Work", 0.01, [1_000])
            assert eventually(lambda: 1_000 in done(tmp_path)), "the jobs of Redis wait for RabbitMQ"
            proxy.pass_through()
            push(60)
            own_redis.kill()
            daemon.says("Redis")
            own_redis.start()
            push(120)
            assert eventually(lambda: {*done(tmp_path)} == {*range(180), 1_000}, 40), daemon.output
            assert daemon.stop() == 0
        assert max(Counter(done(tmp_path)).values()) <= 2


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"broker": "redis://localhost/0", "store": "redis://localhost/1"}, "Redis at `broker` keeps all itself"),
        ({"broker": "amqp://localhost/", "store": "disque://localhost"}, "Disque cannot be a store: name a Redis"),
        ({"broker": "amqp://localhost/", "store": "memory://here"}, "memory cannot be a store: name a Redis"),
        ({"broker": "amqp://localhost/", "store": "radis://localhost"}, "did you mean 'redis'"),
    ],
)
def test_a_store_that_cannot_be_one_is_refused(settings: dict[str, str], error: str) -> None:
    changes = {f"PYWORKERS_{name.upper()}": value for name, value in settings.items()}
    told = pyworkers("run", "--allow-no-jobs", "-q", "q", **changes)
    assert (told.returncode, error in told.stderr) == (2, True), told.stderr


def test_a_store_whose_waits_cannot_be_polled_is_refused() -> None:
    """That of another package, which has all capabilities of a store."""
    with (
        closing(MemoryBroker.open(Config(broker="memory://here"))) as service,
        pytest.raises(ConfigError, match="the store beside memory"),
    ):
        TwoServers(service, service)
