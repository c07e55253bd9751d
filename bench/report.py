"""The figures: one table for each bar, as text, as JSON and as Markdown."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Row:
    label: str
    values: list[float]  # one a round
    ratio: str = ""  # against what, as text
    bar: str = ""
    met: bool | None = None
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass
class Table:
    bar: str
    title: str
    unit: str
    how: str
    rows: list[Row] = field(default_factory=list)
    digits: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    vital: list[str] = field(default_factory=list)  # ours: a table without these says nothing
    extra: dict[str, Any] = field(default_factory=dict)  # what pictures are drawn from

    def row(self, label: str) -> Row | None:
        return next((row for row in self.rows if row.label == label), None)

    def judge(self, label: str, ratio: str, bar: str, met: bool) -> None:
        row = self.row(label)
        if row is not None:
            row.ratio, row.bar, row.met = ratio, bar, met

    # --- as text

    def cells(self) -> list[list[str]]:
        """The heading first."""
        lines = [["", self.unit, "min..max", "ratio", "bar", ""]]
        for row in self.rows:
            figures = [self._figure(row.median), self._spread(row)] if row.values else ["-", ""]
            verdict = {None: "", True: "pass", False: "FAIL"}[row.met]
            lines.append([row.label, *figures, row.ratio, row.bar, " ".join(filter(None, [verdict, row.note]))])
        return lines

    def _figure(self, value: float) -> str:
        return f"{value:,.{self.digits}f}"

    def _spread(self, row: Row) -> str:
        return f"{self._figure(min(row.values))}..{self._figure(max(row.values))}" if len(row.values) > 1 else ""

    def text(self) -> str:
        cells = self.cells()
        widths = [max(len(line[column]) for line in cells) for column in range(6)]
        lines = [f"{self.bar}: {self.title}"]
        for line in cells:
            texts = [line[0].ljust(widths[0])]
            texts += [line[column].rjust(widths[column]) for column in (1, 2, 3)]
            texts += [line[column].ljust(widths[column]) for column in (4, 5)]
            lines.append("  " + "  ".join(texts).rstrip())
        lines += [f"  left out: {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join(lines)

    def markdown(self) -> str:
        head, *body = self.cells()
        lines = [f"| {' | '.join(head)} |", "|---|--:|--:|--:|---|---|"]
        lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in body]
        if self.left_out:
            lines += ["", *(f"Left out: {name} ({reason})." for name, reason in self.left_out.items())]
        return "\n".join(lines)


@dataclass
class Results:
    machine: dict[str, Any]
    tables: list[Table] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Results:
        tables = [Table(**{**table, "rows": [Row(**row) for row in table["rows"]]}) for table in data["tables"]]
        return cls(data["machine"], tables)

    def replace(self, bar: str, tables: Sequence[Table]) -> None:
        self.tables = [table for table in self.tables if table.bar != bar] + list(tables)

    def merge(self, later: Results) -> None:
        for bar in dict.fromkeys(table.bar for table in later.tables):
            self.replace(bar, later.of(bar))
        self.machine = {**later.machine, "systems": {**self.machine["systems"], **later.machine["systems"]}}

    def of(self, bar: str) -> list[Table]:
        return [table for table in self.tables if table.bar == bar]

    def summary(self) -> str:
        judged = [row for table in self.tables for row in table.rows if row.met is not None]
        missed = [f"{table.bar} ({row.label})" for table in self.tables for row in table.rows if row.met is False]
        absent = [f"{table.bar} ({label})" for table in self.tables for label in table.left_out if label in table.vital]
        parts = [f"{len(judged) - len(missed)} of {len(judged)} bars met"]
        parts += [f"missed: {', '.join(missed)}"] if missed else []
        parts += [f"could not be measured: {', '.join(absent)}"] if absent else []
        return "; ".join(parts)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
