"""One run of the benchmark: what it was asked for, which systems are there, and the rounds A B C A B C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.environments import Unavailable
from bench.measure import Drained
from bench.programs import Failed
from bench.report import Row, Table
from bench.server import OwnRedis
from bench.systems import ALL, OURS, System

FEWEST_JOBS = 100


@dataclass
class Run:
    server: OwnRedis
    rounds: int
    jobs: int  # for ours; each other system is given as many as take it about as long
    wanted: Sequence[str]  # names of systems; empty: all
    left_out: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def available(self, *systems: System) -> list[System]:
        """Those that were asked for and can be had."""
        return [system for system in systems if self._is_wanted(system) and self._install(system)]

    def _is_wanted(self, system: System) -> bool:
        return not self.wanted or system.name in self.wanted

    def _install(self, system: System) -> bool:
        if system.name not in self.versions and system.name not in self.left_out:
            try:
                system.install()
                self.versions[system.name] = system.version
            except Unavailable as reason:
                self.left_out[system.name] = str(reason)
        return system.name in self.versions

    def count_for(self, system: System, share: float = 1.0) -> int:
        return max(FEWEST_JOBS, int(self.jobs * share * min(1.0, system.typical / OURS.typical)))

    def reasons(self, systems: Iterable[System]) -> dict[str, str]:
        return {system.name: self.left_out[system.name] for system in systems if system.name in self.left_out}

    def in_turn(self, table: Table, contestants: Mapping[str, Callable[[], Any]]) -> dict[str, list[Any]]:
        """Measures each system in every round. The table notes a system that fails, and no later round measures it."""
        found: dict[str, list[Any]] = {label: [] for label in contestants}
        others = {system.name for system in ALL if system is not OURS}
        table.vital = [label for label in contestants if label not in others]
        for number in range(1, self.rounds + 1):
            for label, measure in contestants.items():
                if label in table.left_out:
                    continue
                print(
                    f"bench: {table.bar}, round {number} of {self.rounds}: {label} ",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
                try:
                    found[label].append(measure())
                except Failed as reason:
                    table.left_out[label] = str(reason)
                    print(f"failed: {reason}", file=sys.stderr)
                else:
                    print(_short(found[label][-1]), file=sys.stderr)
        return {label: values for label, values in found.items() if values}


def _short(value: Any) -> str:
    value = value[0] if isinstance(value, tuple) else value
    return f"{value:,.2f}" if isinstance(value, float) else "done"


def rows(found: Mapping[str, list[float]]) -> list[Row]:
    return [Row(label, values) for label, values in found.items()]


def rows_of(found: Mapping[str, Sequence[Drained]], figure: str) -> list[Row]:
    """One figure of drains, without systems for which a round does not have it."""
    taken = {label: [getattr(each, figure) for each in rounds] for label, rounds in found.items()}
    return rows({label: values for label, values in taken.items() if None not in values})
