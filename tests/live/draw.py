"""Draw every panel from its query results: what a person sees who has the dashboard open.

Is: one contact sheet per dashboard, panels in their rows and colours. Is not: Grafana; it is enough
to see whether a panel is readable, true and of use. Above: `make dashboards-live`.
Below: matplotlib.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.live.panels import STEP_S, Shown
from tests.live.servers import Series

COLUMNS = 4
ROW_INCHES = 2.4
COLOURS = {"green": "#56a64b", "orange": "#ff9830", "red": "#e02f44"}
NAMED = {
    **COLOURS,
    "dark-red": "#8f1023",
    "yellow": "#f2cc0c",
    "purple": "#a352cc",
    "light-purple": "#ca95e5",
    "super-light-purple": "#deb6f2",
    "blue": "#5794f2",
}
FACTORS = {"percentunit": (100.0, "%"), "bytes": (1e-6, "MB"), "s": (1.0, "s"), "cps": (1.0, "/s")}


def draw_sheet(shown: Sequence[Shown], file: Path, *, title: str, start: float) -> None:
    """Write a PNG with all panels of a dashboard.

    Args:
        shown: The panels with their results, in order.
        file: Where to.
        title: Above all of it.
        start: Unix seconds that stand as 0 on the time axis.
    """
    mpl.rcParams["font.size"] = 7
    rows = -(-len(shown) // COLUMNS)
    figure = Figure(figsize=(20, rows * ROW_INCHES), layout="constrained")
    figure.suptitle(title, fontsize=12)
    for number, one in enumerate(shown):
        axes = figure.add_subplot(rows, COLUMNS, number + 1)
        axes.set_title(one.title, fontsize=9, loc="left", weight="bold")
        kind = str(one.panel.raw["type"])
        {"stat": _stat, "bargauge": _bars}.get(kind, _lines)(axes, one, start)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def _no_data(axes: Axes) -> None:
    axes.text(0.5, 0.5, "No data", ha="center", va="center", transform=axes.transAxes)


def _factor(one: Shown) -> tuple[float, str]:
    return FACTORS.get(one.panel.unit, (1.0, ""))


def _overrides(one: Shown) -> dict[str, str]:
    """Return the fixed colours of lines by their legend, as matplotlib spells them."""
    config = cast("dict[str, list[dict[str, object]]]", one.panel.raw["fieldConfig"])
    found: dict[str, str] = {}
    for override in config["overrides"]:
        matcher = cast("dict[str, str]", override["matcher"])
        (first,) = cast("list[dict[str, dict[str, str]]]", override["properties"])
        found[matcher["options"]] = NAMED[first["value"]["fixedColor"]]
    return found


def _steps(one: Shown) -> list[tuple[float | None, str]]:
    defaults = cast("dict[str, dict[str, dict[str, object]]]", one.panel.raw["fieldConfig"])
    thresholds = cast("dict[str, list[dict[str, object]]]", defaults["defaults"].get("thresholds"))
    steps = thresholds["steps"] if thresholds else []
    return [(cast("float | None", step["value"]), COLOURS[str(step["color"])]) for step in steps]


def _colour(one: Shown, value: float) -> str:
    colour = "#cccccc"
    for edge, name in _steps(one):
        if edge is None or value >= edge:
            colour = name
    return colour


def _lines(axes: Axes, one: Shown, start: float) -> None:
    factor, unit = _factor(one)
    drawn = [(label, series) for label, series in one.lines if series.points]
    if not drawn:
        _no_data(axes)
        return
    config = cast("dict[str, dict[str, dict[str, object]]]", one.panel.raw["fieldConfig"])
    is_stack = "stacking" in config["defaults"].get("custom", {})
    fixed = _overrides(one)
    bottoms: dict[float, float] = {}
    for label, series in drawn:
        points = list(_with_gaps(series))
        at = [when - start for when, _ in points]
        values = [value * factor for _, value in points]
        if is_stack:
            floor = [bottoms.get(when, 0.0) for when in at]
            roof = [base + value for base, value in zip(floor, values, strict=True)]
            bottoms.update(zip(at, roof, strict=True))
            axes.fill_between(
                at, floor, roof, alpha=0.6, label=label, color=fixed.get(label), linewidth=0
            )
        else:
            axes.plot(at, values, label=label, linewidth=1.1)
    for edge, colour in _steps(one):
        if edge is not None and edge * factor <= axes.get_ylim()[1] * 1.5:
            axes.axhline(edge * factor, color=colour, linestyle="--", linewidth=0.8)
    if one.panel.unit != "percentunit":
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.set_ylabel(unit)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=5.5, ncols=2, loc="best", framealpha=0.6)


def _with_gaps(series: Series) -> Iterator[tuple[float, float]]:
    """Yield the points, and NaN where Grafana would not draw a line either."""
    before = series.points[0][0]
    for when, value in series.points:
        if when - before > 1.5 * STEP_S:
            yield before + STEP_S, math.nan
        yield when, value
        before = when


def _stat(axes: Axes, one: Shown, _: float) -> None:
    factor, unit = _factor(one)
    axes.set_axis_off()
    lines = [(label, series.last) for label, series in one.lines if series.points]
    for number, (label, value) in enumerate(lines or [("No data", 0.0)]):
        height = 1.0 / max(len(lines), 1)
        top = 1.0 - number * height
        text = f"{label}\n{value * factor:.4g} {unit}" if lines else label
        box = {"facecolor": _colour(one, value), "edgecolor": "none", "pad": 3}
        axes.text(0.5, top - height / 2, text, ha="center", va="center", fontsize=10, bbox=box)


def _bars(axes: Axes, one: Shown, _: float) -> None:
    factor, unit = _factor(one)
    lines = [(label, series.last * factor) for label, series in one.lines if series.points]
    if not lines:
        _no_data(axes)
    lines.sort(key=lambda line: line[1])
    axes.barh([label for label, _ in lines], [value for _, value in lines])
    axes.set_xlabel(unit)
