from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest
import redis as redis_py
from apps import own_app, running
from servers import RedisServer

from goworkers_py.api.app import App
from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.loader import WriteOver, load
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.features.configuration.central import written_over
from goworkers_py.features.configuration.service import ConfigTaker
from goworkers_py.features.configuration.start import CentralSource
from goworkers_py.features.configuration.stored_config import has_taken


@pytest.fixture
def app(own_redis: RedisServer) -> Iterator[App]:
    with own_app(own_redis.url) as app:
        yield app


def read(over: WriteOver) -> Config:
    return load(environment={}, over=over)


def started(app: App) -> ConfigTaker:
    first = app.inspector.configurations.push("billing", "[queue:a]\n")
    source = CentralSource("billing", first.version, first.digest, app.config, read)
    return ConfigTaker(source, app.broker, read(written_over(ConfigText(first.text, "it"))), [])


def in_force(taker: ConfigTaker) -> tuple[int, int, Sequence[str]]:
    """The version with which the process has started, the one that it has taken, and the options that wait."""
    shown = taker.in_force
    return shown.started, shown.applied, shown.waiting


def test_a_push_whose_message_was_lost_is_found_by_the_next_look(app: App) -> None:
    taker = started(app)
    taker.look()
    assert in_force(taker) == (1, 1, ())
    app.inspector.configurations.push("billing", "[queue:a]\n[queue:b]\n")
    taker.look()
    assert in_force(taker) == (1, 2, ("[queue:b]",))
    app.inspector.configurations.delete("billing")
    taker.look()
    assert in_force(taker) == (1, 2, ("[queue:b]",))
    app.inspector.configurations.push("billing", "[queue:a]\n")
    taker.look()
    assert in_force(taker) == (1, 3, ())


def test_a_number_that_comes_again_with_another_text_is_taken(app: App) -> None:
    """After a failover of the server: version 2 was taken and is lost, and version 2 is pushed again, with another
    text."""
    taker, stored = started(app), app.inspector.configurations
    second = stored.push("billing", "[queue:a]\n[queue:b]\n")
    taker.look()
    [lost] = [taker.in_force]
    client = redis_py.Redis.from_url(app.config.broker)
    client.hset("pyworkers:configs", "billing", 1)
    client.hdel("pyworkers:config:billing", "2")
    again = stored.push("billing", "[queue:c]\n")
    client.close()
    assert again.version == second.version == 2
    assert has_taken(lost, second)
    assert not has_taken(lost, again)
    taker.look()
    assert in_force(taker) == (1, 2, ("[queue:a]", "[queue:c]"))
    assert has_taken(taker.in_force, again)


def test_a_push_during_an_outage_is_taken_after_it(app: App, own_redis: RedisServer) -> None:
    taker = started(app)
    own_redis.stop()
    with pytest.raises(BrokerUnavailable):
        taker.look()
    own_redis.start()
    app.inspector.configurations.push("billing", "[queue:a]\n[queue:b]\n")
    app.inspector.configurations.push("billing", "[queue:a]\n[queue:b]\n[queue:c]\n")
    taker.look()
    assert taker.in_force.waiting == ("[queue:b]", "[queue:c]")


def test_a_version_of_a_later_release_is_left_alone_and_told_once(
    app: App, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    taker = started(app)
    client = own_redis.client()
    client.hset("pyworkers:config:billing", "2", '{"v": 2}')
    client.hset("pyworkers:configs", "billing", 2)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            taker.run_once()
    [told] = caplog.messages
    assert "this release cannot read version 2" in told
    assert in_force(taker) == (1, 1, ())


def test_a_version_that_a_fault_has_left_half_in_force_is_tried_again_and_can_be_rolled_back(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def text(threads: int, limit: int) -> str:
        return f"[queue:q]\nconcurrency = {threads}\n[limit:api]\nconcurrent = {limit}\n"

    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    with own_app(own_redis.url, QueueConfig("q", concurrency=1)) as app, running(app.runner.launcher(None)) as launcher:
        stored = app.inspector.configurations
        first = stored.push("billing", text(1, 1))
        source = CentralSource("billing", first.version, first.digest, app.config, read)
        taker = ConfigTaker(source, app.broker, read(written_over(ConfigText(first.text, "it"))), [launcher])
        with monkeypatch.context() as patch:
            patch.setattr(launcher, "take", fail)
            stored.push("billing", text(3, 2))
            taker.run_once()
            assert launcher.managers[0].concurrency == 3, "half of it"
            assert "billing version 2 cannot be taken" in caplog.text
        assert in_force(taker) == (1, 1, ())
        with monkeypatch.context() as patch:
            patch.setattr(launcher, "take", fail)
            stored.push("billing", text(3, 3))
            taker.run_once()
        stored.rollback("billing", 1)
        taker.run_once()
        assert launcher.managers[0].concurrency == 1
        assert in_force(taker) == (1, 4, ())
        with monkeypatch.context() as patch:
            patch.setattr(launcher, "take", fail)
            stored.push("billing", text(3, 2))
            taker.run_once()
        taker.run_once()
        assert in_force(taker) == (1, 5, ()), "without another push"
