"""The pictures, as SVG written by hand: no more than rectangles, lines and texts, in the colours of a theme."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from bench.report import Table
from bench.systems import BARE, COMMANDS, OURS, TRANSPORT

WIDTH, LEFT, RIGHT, TOP, ROW, BOTTOM = 760, 150, 90, 54, 28, 44

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Theme:
    paper: str
    ink: str
    pale: str  # lines of the grid
    ours: str
    probe: str
    other: str

    def style(self) -> str:
        shapes = "".join(
            f".{name}{{fill:{colour}}}line.{name}{{stroke:{colour}}}polyline.{name}{{fill:none;stroke:{colour}}}"
            for name, colour in (("ours", self.ours), ("probe", self.probe), ("other", self.other))
        )
        return (
            f"<style>text{{fill:{self.ink}}}.paper{{fill:{self.paper}}}.pale{{stroke:{self.pale}}}"
            f".ink{{stroke:{self.ink}}}{shapes}</style>"
        )


LIGHT = Theme("#ffffff", "#1f2933", "#e4e7eb", "#c2410c", "#9aa5b1", "#3b6ea5")
DARK = Theme("#0d1117", "#e6edf3", "#30363d", "#f0803c", "#6e7681", "#5b94d1")


@dataclass(frozen=True)
class Picture:
    title: str
    height: float
    parts: Sequence[str]

    def svg(self, theme: Theme) -> str:
        size = f'viewBox="0 0 {WIDTH} {self.height:g}" width="{WIDTH}" height="{self.height:g}"'
        title = escape(self.title)
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="12">',
            f"<title>{title}</title>",
            theme.style(),
            f'<rect class="paper" width="{WIDTH}" height="{self.height:g}" rx="6"/>',
            f'<text x="16" y="28" font-size="15" font-weight="600">{title}</text>',
        ]
        return "\n".join([*head, *self.parts, "</svg>", ""])


def throughput(table: Table) -> Picture:
    """A bar a system, with a whisker from the slowest to the fastest round."""
    rows = sorted((row for row in table.rows if row.label != COMMANDS.name), key=lambda row: -row.median)
    step, most = steps(max(max(row.values) for row in rows))
    plot = WIDTH - LEFT - RIGHT

    def across(value: float) -> float:
        return LEFT + plot * value / most

    height = TOP + ROW * len(rows) + BOTTOM
    ticks = [step * number for number in range(int(most / step) + 1)]
    parts = [*_grid(ticks, across, height, lambda tick: f"{tick:,.0f}")]
    for number, row in enumerate(rows):
        y = TOP + ROW * number
        parts.append(_name(row.label, y))
        parts.append(_rect(LEFT, y + 5, max(1.0, across(row.median) - LEFT), ROW - 10, _kind(row.label)))
        if len(row.values) > 1:
            parts.append(line(across(min(row.values)), y + ROW / 2, across(max(row.values)), y + ROW / 2, "ink", 1.5))
        parts.append(text(across(max(row.values)) + 6, y + ROW / 2 + 4, f"{row.median:,.0f}"))
    return Picture("No-op jobs a second, ten threads (median, slowest and fastest round)", height, parts)


def latency(table: Table) -> Picture:
    """A line from the 1st to the 99th percentile, a box for the middle half, a mark for the median; logarithmic."""
    spread: dict[str, dict[float, float]] = {
        label: dict(map(tuple, pairs)) for label, pairs in table.extra["spread_ms"].items()
    }
    order = sorted(spread, key=lambda label: spread[label][0.5])
    lowest = min(values[0.01] for values in spread.values())
    highest = max(values[0.99] for values in spread.values())
    across, ticks = _logarithmic(lowest, highest, LEFT, WIDTH - RIGHT)
    height = TOP + ROW * len(order) + BOTTOM
    parts = [*_grid(ticks, across, height, lambda tick: f"{tick:g} ms")]
    for number, label in enumerate(order):
        values, y = spread[label], TOP + ROW * number
        middle, kind = y + ROW / 2, _kind(label)
        quarters = across(values[0.25]), across(values[0.75])
        parts.append(_name(label, y))
        parts.append(line(across(values[0.01]), middle, across(values[0.99]), middle, kind, 1.5))
        parts.append(_rect(quarters[0], y + 7, max(2.0, quarters[1] - quarters[0]), ROW - 14, kind))
        parts.append(line(across(values[0.5]), y + 4, across(values[0.5]), y + ROW - 4, "ink", 2))
        parts.append(text(across(values[0.99]) + 6, middle + 4, f"{values[0.5]:.3g}"))
    return Picture("Milliseconds from enqueue to the first line of the job, idle (p1, middle half, p99)", height, parts)


def backlog(table: Table) -> Picture:
    """A point for each backlog, with a whisker from the slowest to the fastest round."""
    sizes: list[int] = table.extra["backlogs"]
    rows = [(size, row) for size in sizes if (row := table.row(f"{size:,}")) is not None]
    step, most = steps(max(max(row.values) for _, row in rows))
    height, floor = 300, 300 - BOTTOM
    across, ticks = _logarithmic(min(sizes), max(sizes), LEFT, WIDTH - RIGHT)

    def up(value: float) -> float:
        return floor - (floor - TOP) * value / most

    parts: list[str] = []
    for number in range(int(most / step) + 1):
        y = up(step * number)
        parts += [line(LEFT, y, WIDTH - RIGHT, y, "pale"), text(LEFT - 8, y + 4, f"{step * number:,.0f}", "end")]
    parts += [text(across(tick), floor + 20, f"{tick:,.0f}", "middle") for tick in ticks]
    points = " ".join(f"{across(size):.1f},{up(row.median):.1f}" for size, row in rows)
    parts.append(f'<polyline class="ours" points="{points}" stroke-width="2"/>')
    for size, row in rows:
        x = across(size)
        parts.append(line(x, up(min(row.values)), x, up(max(row.values)), "ink", 1.5))
        parts.append(f'<circle class="ours" cx="{x:.1f}" cy="{up(row.median):.1f}" r="4"/>')
        parts.append(text(x, up(max(row.values)) - 10, f"{row.median:,.0f}", "middle"))
    return Picture("No-op jobs a second, by the number of jobs that wait", height, parts)


# --- pieces


def steps(highest: float) -> tuple[float, float]:
    """A round step for about five lines, and the end of the scale."""
    power: float = 10 ** math.floor(math.log10(max(highest, 1e-9)))
    step = next(part * power for part in (0.2, 0.5, 1, 2) if highest / (part * power) <= 6)
    return step, math.ceil(highest / step) * step


def _logarithmic(lowest: float, highest: float, start: float, end: float) -> tuple[Scale, list[float]]:
    """From one power of ten to another, and the powers in between."""
    first, last = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
    last = max(last, first + 1)

    def place(value: float) -> float:
        return start + (end - start) * (math.log10(value) - first) / (last - first)

    return place, [10.0**power for power in range(first, last + 1)]


def _grid(ticks: Sequence[float], across: Scale, height: float, written: Callable[[float], str]) -> Iterator[str]:
    for tick in ticks:
        yield line(across(tick), TOP - 4, across(tick), height - BOTTOM + 4, "pale")
        yield text(across(tick), height - BOTTOM + 22, written(tick), "middle")


def _name(label: str, y: float) -> str:
    return text(LEFT - 8, y + ROW / 2 + 4, label, "end", bold=label == OURS.name)


def _kind(label: str) -> str:
    if label == OURS.name:
        return "ours"
    return "probe" if label in (TRANSPORT.name, BARE.name) else "other"


def text(x: float, y: float, words: str, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str, width: float = 1) -> str:
    places = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="{kind}" {places} stroke-width="{width:g}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {place} rx="2"/>'
