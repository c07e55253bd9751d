"""A fleet under chaos mixes processes with pools and without."""

from __future__ import annotations

from pathlib import Path

from chaos.pools import APART, configurations
from goworkers_py.config.loader import load


def test_the_ways_of_a_fleet_are_mixed_and_change_with_each_restart() -> None:
    fleet = [configurations(seed=7, node=number) for number in range(4)]
    for _ in range(5):
        ways = [next(node)[0] for node in fleet]
        assert len(set(ways[:3])) == 3


def test_each_configuration_runs_every_queue_once(tmp_path: Path) -> None:
    path = tmp_path / "pyworkers.ini"
    for node in range(20):
        way, text = next(configurations(seed=7, node=node))
        path.write_text(text)
        config = load(path, {})
        queues = [name for pool in config.pools for name in pool.queues]
        apart = [queue.name for queue in config.queues if queue.name not in queues]
        assert sorted([*queues, *apart]) == ["long", "mixed", "short"]
        assert bool(queues) is (way != APART)
