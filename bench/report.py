"""The figures: the tables of each bar, in records of the runs that measured them; as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

PLAIN_FROM = 100  # figures from here on are written without decimals


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

    @property
    def spread(self) -> float:
        """From the least to the most round, as a share of the median."""
        return (max(self.values) - min(self.values)) / self.median if self.median else 0.0


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
    column: str = ""  # its heading in the table that the page opens with; empty: it is not there

    def row(self, label: str) -> Row | None:
        return next((row for row in self.rows if row.label == label), None)

    @property
    def more_is_better(self) -> bool:
        return self.unit.endswith("/s")

    def judge(self, label: str, ratio: str, bar: str, met: bool) -> None:
        row = self.row(label)
        if row is not None:
            row.ratio, row.bar, row.met = ratio, bar, met

    # --- as text

    def cells(self) -> list[list[str]]:
        """The heading first."""
        lines = [["", self.unit, "min..max", "ratio", "bar", ""]]
        for row in self.rows:
            figures = [self.figure(row.median), self.span(row)] if row.values else ["-", ""]
            verdict = {None: "", True: "pass", False: "FAIL"}[row.met]
            lines.append([row.label, *figures, row.ratio, row.bar, " ".join(filter(None, [verdict, row.note]))])
        return lines

    def figure(self, value: float) -> str:
        return f"{value:,.{self.digits if abs(value) < PLAIN_FROM else 0}f}"

    def span(self, row: Row) -> str:
        return f"{self.figure(min(row.values))}..{self.figure(max(row.values))}" if len(row.values) > 1 else ""

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


@dataclass
class Record:
    """One run: when and on what it measured, how, and its tables."""

    date: str
    machine: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  # of the systems that it measured
    tables: list[Table] = field(default_factory=list)

    def of(self, bar: str) -> list[Table]:
        return [table for table in self.tables if table.bar == bar]


@dataclass
class Results:
    """The records of several runs, the latest last. Each bar is in one of them: the last that measured it."""

    records: list[Record] = field(default_factory=list)

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        return cls([_record(**record) for record in json.loads(text)["records"]])

    def with_record(self, later: Record) -> Results:
        measured = {table.bar for table in later.tables}
        kept = [
            dataclasses.replace(record, tables=[table for table in record.tables if table.bar not in measured])
            for record in self.records
        ]
        return Results([record for record in [*kept, later] if record.tables])

    def record_of(self, bar: str) -> Record | None:
        return next((record for record in self.records if record.of(bar)), None)

    @property
    def tables(self) -> list[Table]:
        return [table for record in self.records for table in record.tables]

    def summary(self) -> str:
        judged = [row for table in self.tables for row in table.rows if row.met is not None]
        missed = [f"{table.bar} ({row.label})" for table in self.tables for row in table.rows if row.met is False]
        absent = [f"{table.bar} ({label})" for table in self.tables for label in table.left_out if label in table.vital]
        parts = [f"{len(judged) - len(missed)} of {len(judged)} bars met"]
        parts += [f"missed: {', '.join(missed)}"] if missed else []
        parts += [f"could not be measured: {', '.join(absent)}"] if absent else []
        return "; ".join(parts)


def _record(tables: list[dict[str, Any]], **rest: Any) -> Record:
    read = [Table(**{**table, "rows": [Row(**row) for row in table["rows"]]}) for table in tables]
    return Record(**rest, tables=read)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
