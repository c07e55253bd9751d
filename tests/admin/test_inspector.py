"""The inspector asks processes; and the inspector on brokers that lack some parts."""

from __future__ import annotations

import time

import pytest
import redis as redis_py
from apps import own_app

from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.broker import Broker
from goworkers_py.core.command import Command
from goworkers_py.core.errors import ConfigError


class Plain(Broker):
    name = "Plain"
    capabilities = ()


def test_a_broker_without_lists_of_jobs_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^broker: Plain has no lists of jobs: set another broker$"):
        Inspector(Plain).queues()


def test_a_broker_without_lists_of_jobs_tells_nothing_of_servers() -> None:
    assert list(Inspector(Plain).broker_facts()) == []


def test_processes_that_are_part_of_another_program_are_not_asked(redis_url: str, redis: redis_py.Redis) -> None:
    redis.sadd("processes", "rails:7:a", "sidekiq:8:b")
    redis.hset("rails:7:a", mapping={"info": '{"embedded":true}', "beat": time.time()})
    redis.hset("sidekiq:8:b", mapping={"info": "{}", "beat": time.time()})
    with own_app(redis_url) as app:
        asked = app.inspector.ask(app.inspector.processes(), Command.STOP)
    assert [process.identity for process in asked] == ["sidekiq:8:b"]
    assert redis.keys("*-signals") == [b"sidekiq:8:b-signals"]


def test_a_broker_without_neighbours_has_no_leftovers_and_marks_no_deploy() -> None:
    neighbours = Inspector(Plain).neighbours
    assert (neighbours.leftovers(), list(neighbours.take_over("7"))) == ([], [])
    assert not neighbours.lives("7")
    with pytest.raises(ConfigError, match="Plain"):
        neighbours.mark_deploy("v2", 1.0)
