"""Charts as inline SVG. Colours come from the stylesheet by class, so that they fit both themes. Every chart has a
title and a description that screen readers read instead of the drawing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from goworkers_py.core.values import dataclass
from goworkers_py.web.site.filters import number
from goworkers_py.web.site.showing import visible

WIDTH, HEIGHT = 720.0, 160.0
LEFT, BOTTOM, TOP = 44.0, 18.0, 6.0  # room for the numbers and names at the axes
_ids = itertools.count()


@dataclass(frozen=True, slots=True)
class Bar:
    """`part` of `value` is drawn in the colour of failures."""

    name: str
    value: float
    part: float = 0.0


def nice_top(most: float) -> float:
    """The end of an axis: a round number that is not below `most`."""
    if most <= 0:
        return 1.0
    size = 10.0 ** (len(str(int(most))) - 1) if most >= 1 else 1.0
    return next(step * size for step in (1, 2, 2.5, 4, 5, 8, 10) if step * size >= most)


def bars(title: str, given: Sequence[Bar], unit: str = "jobs", part: str = "failed") -> Markup:
    """Bars beside each other, each with its figures on hover."""
    if not given:
        return Markup("")
    top = nice_top(max(bar.value for bar in given))
    slot = (WIDTH - LEFT) / len(given)
    drawn = []
    for place, bar in enumerate(given):
        x, width = LEFT + place * slot + slot * 0.12, slot * 0.76
        hover = f"{bar.name}: {number(bar.value)} {unit}" + (f", {number(bar.part)} {part}" if bar.part else "")
        good, bad = _height(bar.value - bar.part, top), _height(bar.part, top)
        drawn.append(
            Markup(
                '<g><title>{}</title><rect class="hit" x="{:.1f}" y="{}" width="{:.1f}" height="{:.1f}"/>'
                '<rect class="good" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
                '<rect class="bad" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/></g>'
            ).format(
                visible(hover), LEFT + place * slot, TOP, slot, HEIGHT - TOP - BOTTOM, x, HEIGHT - BOTTOM - good - bad,
                width, good, x, HEIGHT - BOTTOM - bad, width, bad,
            )
        )  # fmt: skip
    total, failed = sum(bar.value for bar in given), sum(bar.part for bar in given)
    about = f"{number(total)} {unit} from {given[0].name} to {given[-1].name}" + (
        f", of which {number(failed)} {part}" if failed else ""
    )
    return _chart(title, about, Markup("").join([_grid(top), *drawn, _names(given)]))


def chart_of_days(days: Sequence[Mapping[str, Any]]) -> Markup:
    given = [Bar(str(day["date"])[5:], day["processed"], day["failed"]) for day in days]
    return bars("Processed and failed jobs by day", given)


def _height(value: float, top: float) -> float:
    height = (HEIGHT - TOP - BOTTOM) * max(0.0, value) / top
    return max(height, 1.0) if value > 0 else 0.0


def _grid(top: float) -> Markup:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
        lines.append(
            Markup(
                '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
                '<text class="axis" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
            ).format(LEFT, WIDTH, y, y, LEFT - 6, y + 3.5, short(top * share))
        )
    return Markup("").join(lines)


def _names(given: Sequence[Bar]) -> Markup:
    """Of the first, the middle and the last."""
    slot = (WIDTH - LEFT) / len(given)
    places = sorted({0, len(given) // 2, len(given) - 1})
    anchors = {0: "start", len(given) - 1: "end"}
    return Markup("").join(
        Markup('<text class="axis" x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(
            LEFT + (place + {"start": 0.1, "end": 0.9}.get(anchors.get(place, ""), 0.5)) * slot,
            HEIGHT - 4,
            anchors.get(place, "middle"),
            visible(given[place].name),
        )
        for place in places
    )


def spark(title: str, values: Sequence[float], width: float = 96.0, height: float = 22.0) -> Markup:
    """A small line without axes."""
    if not values:
        return Markup("")
    top, step = max(*values, 1e-9), width / max(1, len(values) - 1)
    points = " ".join(f"{i * step:.1f},{height - 2 - (height - 4) * v / top:.1f}" for i, v in enumerate(values))
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">'
        '<polyline points="{}"/></svg>'
    ).format(width, height, width, height, visible(title), points)


def _chart(title: str, about: str, inside: Markup) -> Markup:
    name = f"chart-{next(_ids) % 1000}"
    return Markup(
        '<div class="scroll newest" tabindex="0" role="group" aria-label="{}">'
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-labelledby="{}-title {}-about">'
        '<title id="{}-title">{}</title><desc id="{}-about">{}</desc>{}</svg></div>'
    ).format(
        visible(title), WIDTH, HEIGHT, name, name, name, visible(title), name, visible(about), inside,
    )  # fmt: skip


def short(value: float) -> str:
    """12,000 as 12k: for an axis."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


# By these names in the templates.
CHARTS: dict[str, Callable[..., Markup]] = {"chart_of_days": chart_of_days, "bars_of": bars, "spark": spark}
