"""Which queues are worked with their levels, and in which pools."""

from __future__ import annotations

import pytest

from goworkers_py.config.job_options import CodeOptions
from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.core.errors import ConfigError
from goworkers_py.policy.levels import Levels
from goworkers_py.policy.registry import JobSpec, Registry

PLAIN = QueueConfig(name="plain")
MAIL = QueueConfig(name="mail", priorities=True)
ORDERS = QueueConfig(name="orders", bare_list="demo")


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.add(JobSpec("Job", print, queue="by_code", options=CodeOptions(priority="high")))
    return registry


def test_a_queue_has_levels_by_its_configuration_or_by_the_code_of_a_job(registry: Registry) -> None:
    by_code = QueueConfig(name="by_code")
    names = [queue.name for queue in Levels([PLAIN, MAIL, ORDERS, by_code], registry).queues]
    assert names == [
        "plain", "mail@high", "mail", "mail@low", "orders", "orders@plain:demo",
        "by_code@high", "by_code", "by_code@low",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("queues", "told"),
    [
        ([QueueConfig(name="by_code", priorities=False)], "the code of job Job names a priority"),
        ([QueueConfig(name="mail@low", priorities=True)], "mail@low is a level of queue mail already"),
        ([MAIL, QueueConfig(name="mail@low")], "queue mail@low: it is worked with queue mail"),
    ],
)
def test_levels_that_contradict_are_refused(registry: Registry, queues: list[QueueConfig], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Levels(queues, registry)


def test_a_pool_has_the_levels_of_its_queues(registry: Registry) -> None:
    levels = Levels([PLAIN, MAIL, ORDERS], registry)
    for queues, expected in (
        (("plain", "mail"), ("plain", "mail@high", "mail", "mail@low")),
        (("orders", "plain"), ("orders", "orders@plain:demo", "plain")),
    ):
        assert levels.pool(PoolConfig(name="p", queues=queues)).queues == expected


@pytest.mark.parametrize(
    ("queues", "told"),
    [
        (("plain", "mail"), "queue mail has priorities, which need strict order; take mail out"),
        (("plain", "orders"), "queue orders has a plain list, which needs strict order; take orders out"),
    ],
)
def test_levels_need_strict_order(registry: Registry, queues: tuple[str, ...], told: str) -> None:
    levels = Levels([PLAIN, MAIL, ORDERS], registry)
    with pytest.raises(ConfigError, match=told):
        levels.pool(PoolConfig(name="p", queues=queues, weights=(2, 1)))
    without = PoolConfig(name="p", queues=("plain",), weights=(1,))
    assert levels.pool(without) == without
