"""The inspector on brokers that lack some parts."""

from __future__ import annotations

import pytest

from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.broker import Broker
from goworkers_py.core.errors import ConfigError


class Plain(Broker):
    name = "Plain"
    capabilities = ()


def test_a_broker_without_lists_of_jobs_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^broker: Plain has no lists of jobs: set another broker$"):
        Inspector(Plain()).queues()


def test_a_broker_without_neighbours_has_no_leftovers_and_marks_no_deploy() -> None:
    neighbours = Inspector(Plain()).neighbours
    assert (neighbours.leftovers(), list(neighbours.take_over("7")), neighbours.of_go_workers([])) == ([], [], [])
    assert not neighbours.lives("7")
    with pytest.raises(ConfigError, match="Plain"):
        neighbours.mark_deploy("v2", 1.0)
