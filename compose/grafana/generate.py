"""Write the Grafana dashboards: `python compose/grafana/generate.py [folder]`.

Is: how a block of a `*.panels` file becomes a panel, and what all panels share. Is not: a server;
rules and alerts are in `compose/prometheus`.
Above: `dashboards/*.json`, committed, which a test compares byte by byte.
Below: `overview.panels`, `source.panels`; Grafana's official SDK.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

HERE = Path(__file__).parent
PROMETHEUS = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
# Of stacked areas: what is ours to answer for is red, what others did is not.
COLOURS = {
    "{{outcome}}": {
        "ok": "green",
        "lost": "dark-red",
        "system_error": "red",
        "timeout": "orange",
        "tool_error": "yellow",
        "denied": "purple",
        "approval_expired": "light-purple",
        "over_budget": "super-light-purple",
        "cancelled": "blue",
    },
    "{{state}}": {"queued": "orange", "running": "green", "awaiting_approval": "purple"},
}
HEIGHTS = {"stat": 4, "lines": 8, "stack": 8, "bars": 8}
WIDE = 24
"""The width of a dashboard. Bars over all of it are few, and low."""
Query = tuple[str, str]
Builder = stat.Panel | timeseries.Panel | bargauge.Panel


@dataclass
class Block:
    """A panel as it is written down."""

    title: str
    kind: str
    unit: str
    width: int
    colours: list[tuple[str, float | None]]
    says: str = ""
    queries: list[Query] = field(default_factory=list[Query])


def read_rows(file: Path) -> list[tuple[str, list[Block]]]:
    """Return the rows of a `*.panels` file, each a title and its blocks."""
    rows: list[tuple[str, list[Block]]] = []
    text = "\n".join(
        line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith(";")
    )
    for part in text.strip().split("\n\n"):
        if part.startswith("# "):
            rows.append((part.removeprefix("# "), []))
        else:
            rows[-1][1].append(read_block(part))
    return rows


def read_block(text: str) -> Block:
    """Return one panel of a `*.panels` file."""
    about, *queries = text.split("\n> ")
    head, says = about.split("\n", 1)
    title, format_ = head.split(" | ")
    kind, unit, width, *steps = format_.split()
    colours: list[tuple[str, float | None]] = []
    for step in steps:
        colour, _, edge = step.partition("@")
        colours.append((colour, float(edge) if edge else None))
    block = Block(title, kind, unit, int(width), colours, " ".join(says.split()))
    for query in queries:
        legend, expression = query.split(" | ", 1)
        block.queries.append((legend, " ".join(expression.split())))
    return block


def build_panel(block: Block) -> Builder:
    """Return the builder of a panel."""
    draw: dict[str, Callable[[Block], Builder]] = {
        "stat": _stat,
        "lines": _lines,
        "stack": _stack,
        "bars": _bars,
    }
    panel = draw[block.kind](block)
    panel.title(block.title).description(block.says).datasource(PROMETHEUS)
    is_low = block.kind == "bars" and block.width == WIDE
    panel.unit(block.unit).span(block.width).height(4 if is_low else HEIGHTS[block.kind])
    for number, (legend, expression) in enumerate(block.queries):
        query = prometheus.Dataquery().expr(expression).legend_format(legend)
        query.ref_id(chr(ord("A") + number)).datasource(PROMETHEUS)
        panel.with_target(query.instant() if block.kind in ("stat", "bars") else query.range())
    if block.colours:
        steps = [models.Threshold(value=edge, color=colour) for colour, edge in block.colours]
        thresholds = dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE)
        panel.thresholds(thresholds.steps(steps))
    return panel


def _stat(_: Block) -> stat.Panel:
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False)
    panel = stat.Panel().reduce_options(reduce).graph_mode(kinds.BigValueGraphMode.NONE)
    panel.color_mode(kinds.BigValueColorMode.BACKGROUND)
    return panel.color_scheme(_by_threshold())


def _lines(block: Block) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(kinds.LegendDisplayMode.LIST)
    legend.placement(kinds.LegendPlacement.BOTTOM).show_legend(show_legend=True)
    tooltip = common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI)
    panel = timeseries.Panel().legend(legend).tooltip(tooltip.sort(kinds.SortOrder.DESCENDING))
    panel.line_width(1).show_points(kinds.VisibilityMode.NEVER)
    if block.unit == "percentunit":
        panel.max(1)
    else:
        panel.axis_soft_min(0)
    if block.colours:
        style = common.GraphThresholdsStyleConfig().mode(kinds.GraphTresholdsStyleMode.DASHED)
        panel.thresholds_style(style)
    return panel


def _stack(block: Block) -> timeseries.Panel:
    stacking = common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A")
    panel = _lines(block).stacking(stacking).fill_opacity(30)
    for name, colour in COLOURS.get(block.queries[0][0], {}).items():
        fixed = {"mode": "fixed", "fixedColor": colour}
        panel.override_by_name(name, [models.DynamicConfigValue(id_val="color", value=fixed)])
    return panel


def _bars(_: Block) -> bargauge.Panel:
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False)
    panel = bargauge.Panel().reduce_options(reduce).orientation(kinds.VizOrientation.HORIZONTAL)
    return panel.display_mode(kinds.BarGaugeDisplayMode.BASIC).show_unfilled(show_unfilled=True)


def _by_threshold() -> dashboard.FieldColor:
    return dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS)


def build_dashboard(name: str) -> models.Dashboard:
    """Return one dashboard, `overview` or `source`."""
    title = {"overview": "Overview", "source": "Source detail"}[name]
    board = dashboard.Dashboard(f"Toolrail / {title}").uid(f"toolrail-{name}").readonly()
    board.tags(["toolrail"]).time("now-6h", "now").refresh("30s").timezone("browser")
    board.tooltip(models.DashboardCursorSync.CROSSHAIR)
    board.link(
        dashboard.DashboardLink("Toolrail")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["toolrail"])
        .keep_time(keep_time=True)
        .include_vars(include_vars=True)
    )
    for variable in variables(name):
        board.with_variable(variable)
    number = 0
    for row, blocks in read_rows(HERE / f"{name}.panels"):
        number += 1
        board.with_row(dashboard.Row(row).id(number))
        for block in blocks:
            number += 1
            panel = build_panel(block)
            panel.id(number)
            board.with_panel(panel)
    return board.build()


def variables(name: str) -> list[dashboard.DatasourceVariable | dashboard.QueryVariable]:
    """Return what a reader may choose at the top of a dashboard."""
    datasource = dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    seen = '{__name__=~"toolrail_(redis_up|worker_slots|build_info)"}'
    job = _choice("job", f"label_values({seen}, job)").multi(multi=True)
    worker = 'toolrail_worker_slots{job=~"$job"}'
    instance = _choice("instance", f"label_values({worker}, instance)").multi(multi=True)
    everyone = models.VariableOption(text=["All"], value=["$__all"])
    for variable in (job, instance):
        variable.include_all(include_all=True).current(everyone)
    # Not what was found: clients that are scraped have no slots.
    chosen: list[dashboard.DatasourceVariable | dashboard.QueryVariable]
    chosen = [datasource, job, instance.all_value(".+")]
    if name == "source":
        source = _choice("source", 'label_values(toolrail_queue_depth{job=~"$job"}, source)')
        chosen.append(source.current(models.VariableOption(text="builtin", value="builtin")))
    return chosen


def _choice(name: str, query: str) -> dashboard.QueryVariable:
    variable = dashboard.QueryVariable(name).label(name.capitalize()).datasource(PROMETHEUS)
    variable.query({"query": query, "refId": name, "qryType": 1})
    variable.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    return variable.sort(models.VariableSort.ALPHABETICAL_ASC)


def main() -> None:
    """Write both dashboards into a folder, by default the committed one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "dashboards"
    for name in ("overview", "source"):
        text = JSONEncoder(sort_keys=True, indent=2).encode(build_dashboard(name))
        (folder / f"toolrail-{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
