"""The section of a paper's figure, from its directory."""

from __future__ import annotations

import base64
import math
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flowloom import metrics
from flowloom._native import ScenarioError
from flowloom.claims.entries import VERDICTS
from flowloom.claims.intervals import HOLDS
from flowloom.figures.grid import Grid
from flowloom.figures.saved import Saved, SavedGrid
from flowloom.figures.schema import METRIC_AXIS
from flowloom.plots import frames, over
from flowloom.plots import tables as heat
from flowloom.plots.frames import Frame
from flowloom.reports import claims, findings, panels
from flowloom.reports.content import Cell, Claim, Fact, Plots, Section, Table
from flowloom.reports.facts import span
from flowloom.reports.panels import Legend
from flowloom.stats import Estimate, averaged
from flowloom.tables import Table as Texts


def of(saved: Saved, id_: str) -> Section:
    """Return the section of a figure. If its file has changed since it was run, its pictures take the place of plots."""
    figure, about = saved.figure, saved.about
    says = {claim.id: claim.says for claim in figure.claims} if figure else {}
    found = [Claim(id, each.verdict, says.get(id, ""), claims.of(each.checks)) for id, each in saved.claims.items()]
    plots, tables, sentences, warnings = [], [], [], saved.warnings()
    try:
        if figure is None:
            raise ScenarioError(
                f"there is no file of the figure {saved.name} here, so its pictures are shown as they were drawn"
            )
        grid = SavedGrid(figure, saved.directory, saved.data)
        plots, tables, sentences = drawn(grid), _tables(grid), _ranking(grid)
    except ScenarioError as error:
        plots = pictures(saved.directory, saved.name)
        warnings = [*warnings, str(error)]
    seeds = "1" if about.seeds == 1 else f"1 to {about.seeds}"
    commit = f"commit {about.commit or 'unknown'}" + ("" if about.clean else " with changes")
    facts = [
        Fact("Figure", f"{saved.name}, scale {saved.scale}"),
        *([Fact("Set", ", ".join(f"{key} = {value}" for key, value in saved.changes.items()))] if saved.changes else []),
        Fact("Seeds" if about.seeds > 1 else "Seed", seeds),
        *([Fact("Runs", f"{about.runs:,}")] if about.runs else []),
        Fact("Simulator", commit),
        Fact("Made", f"{about.date}, {span(about.seconds)} of simulation on one core"),
    ]
    texts = f"{figure.about}\n\n{figure.notes}".split("\n\n") if figure else []
    explained = [" ".join(text.split()) for text in texts if text.strip()]
    return Section(
        id=id_,
        kind="Figure",
        title=figure.title if figure else saved.name,
        finding=[*verdicts([claim.verdict for claim in found], found[0].id if found else ""), *_deciding(saved), *sentences],
        facts=facts,
        command=_command(saved),
        about=explained,
        warnings=warnings,
        plots=plots,
        tables=[*tables, _runs(saved)],
        claims=found,
    )


def verdicts(found: Sequence[str], only: str) -> list[str]:
    """Count verdicts in a sentence; `only` is the name of the claim if there is one."""
    if not found:
        return []
    if len(found) == 1:
        return [f"The claim {only} {_verb(found[0], 1)}."]
    counts = Counter(found)
    parts = [f"{counts[verdict]} {_verb(verdict, counts[verdict])}" for verdict in VERDICTS if counts[verdict]]
    return [f"Of {len(found)} claims, {', '.join(parts[:-1]) + ' and ' * (len(parts) > 1) + parts[-1]}."]


def _deciding(saved: Saved) -> list[str]:
    """Say what decided that a claim differs or is undecided, for the first few."""
    sentences = []
    for id, claim in saved.claims.items():
        check = next((each for each in claim.checks if each.counts and each.verdict == claim.verdict != HOLDS), None)
        if check is not None:
            measured = check.text.partition("; all points")[0]
            sentences.append(f"For {id}, {measured} was measured, and the band is {check.band}.")
    return sentences[:3]


def _verb(verdict: str, count: int) -> str:
    if verdict.endswith("s"):
        return verdict if count == 1 else {"holds": "hold", "differs": "differ"}.get(verdict, verdict)
    return f"{'is' if count == 1 else 'are'} {verdict}"


def _command(saved: Saved) -> str:
    scale = [] if saved.scale == "quick" else ["--scale", saved.scale]
    sets = [word for key, value in saved.changes.items() for word in ("--set", f"{key}={value}")]
    return shlex.join(["flowloom", "paper", "run", saved.name, *scale, *sets])


def _frames(grid: Grid) -> list[Frame]:
    return [frame for panel in grid.figure.panels for frame in frames.frames(grid, panel)]


def drawn(grid: Grid) -> list[Plots]:
    """Return the plots of a figure, but for panels that are tables."""
    legend, shown = Legend(), []
    for frame in _frames(grid):
        if frame.panel.kind != "table":
            shown.append(_panel(grid, frame, legend))
    return [Plots(grid.figure.title, legend.keys, shown, averaged(frames.counts(grid)))] if shown else []


def _panel(grid: Grid, frame: Frame, legend: Legend) -> dict[str, Any]:
    panel = frame.panel
    label = frames.y_label(grid, panel)
    y = panels.axis(label, log=panel.log_y, low=panel.y_min, high=panel.y_max)
    if panel.kind == "course":
        traces = [panels.course(legend.number(look), look, xs, ys) for look, xs, ys in frames.courses(grid, frame)]
        x = panels.axis(panel.x_label or panel.x.replace("_", " ").capitalize())
    elif panel.kind == "cdf":
        found = frames.distributions(grid, frame)
        traces = [panels.line(legend.number(look), look, xs, ys, steps=True) for look, xs, ys in found]
        x = panels.axis(panel.x_label)
    else:
        members = frames.members(grid, frame)
        names = [panels.words(name) for name in frames.groups(grid, frame)]
        numbers = frames.numbers(grid, frame)
        places = numbers.at if panel.kind == "lines" else None
        at = list(range(len(names)) if places is None else places)
        x = panels.axis(numbers.key, ticks=at, labels=names, groups=places is None)
        if panel.kind == "bars":
            traces = panels.bars(legend, members, log=panel.log_y, base=panel.y_min or 0.0)
        else:
            traces = panels.lines(legend, at, members)
        least, _ = over.extent(members, [])
        y["zero"] = least >= 0 and panel.y_min is None
    y["zero"] = y.get("zero", True) and not panel.log_y and panel.y_min is None
    return panels.panel(frame.title, x | {"log": panel.log_x, "low": panel.x_min, "high": panel.x_max}, y, traces)


def pictures(directory: Path, name: str) -> list[Plots]:
    """Return the pictures in a directory, inside of the page."""
    found = []
    for path in sorted(directory.glob("*.png")):
        data = base64.b64encode(path.read_bytes()).decode()
        found.append(Plots(name, [], [], image=f"data:image/png;base64,{data}"))
    return found


def _tables(grid: Grid) -> list[Table]:
    """Return the numbers of each panel: a row for each member of its series, a column for each value of its x axis."""
    found = []
    for frame in _frames(grid):
        label = frames.y_label(grid, frame.panel)
        title = " · ".join(filter(None, (frame.title, label)))
        if frame.panel.kind in ("bars", "lines", "table"):
            columns, rows = frames.groups(grid, frame), frames.rows(grid, frame)
            shaded = frame.panel.kind == "table"
            x = "" if frame.panel.x == METRIC_AXIS else f"The columns are values of {grid.figure.axis(frame.panel.x).title}. "
            found.append(_numbers(title, columns, heat.ranked(rows) if shaded else rows, x, shaded=shaded))
        elif frame.panel.kind == "cdf":
            found.append(_quantiles(grid, frame, title))
        else:
            found.append(_courses(grid, frame, title))
    return found


def _numbers(title: str, columns: list[str], rows: list[heat.Row], x: str, *, shaded: bool) -> Table:
    depths = heat.depths(rows)
    cells = []
    for down, row in enumerate(rows):
        line = [Cell(row.label)]
        for across, value in enumerate(row.values):
            order = None if math.isnan(value) else value
            if shaded:
                depth = None if math.isnan(value) else depths[down][across]
                line.append(Cell(heat.written(value), order, depth, heat.spread(row, across)))
            else:
                half_width = row.half_widths[across] if row.half_widths else None
                text = "none" if math.isnan(value) else metrics.spread(Estimate(value, half_width, 0), 3)
                line.append(Cell(text, order))
        cells.append(line)
    note = x + ("The best is on top; the colour shows how far a number is from the best of its column." if shaded else "")
    return Table(title, ["", *columns], cells, frozenset(range(1, len(columns) + 1)), note)


def _quantiles(grid: Grid, frame: Frame, title: str) -> Table:
    shares = (0.1, 0.5, 0.9, 0.99)
    rows = []
    for look, xs, ys in frames.distributions(grid, frame):
        whole = 100.0 if frame.panel.percent else 1.0
        values = [next((x for x, y in zip(xs, ys, strict=True) if y >= share * whole - 1e-9), None) for share in shares]
        rows.append([look.label, *("-" if value is None else metrics.significant(value, 3) for value in values)])
    head = ["", *(f"{share:.0%} of flows, at most" for share in shares)]
    label = metrics.label(frame.panel.x) if not frame.panel.x_label else frame.panel.x_label
    return Table.of(Texts(head, rows, range(1, len(head))), f"{title}: {label}")


def _courses(grid: Grid, frame: Frame, title: str) -> Table:
    rows = []
    for look, _, ys in frames.courses(grid, frame):
        found = (min(ys), math.fsum(ys) / len(ys), max(ys), ys[-1]) if ys else ()
        rows.append([look.label, *(metrics.significant(value, 3) for value in found)])
    return Table.of(
        Texts(["", "Least", "Mean of samples", "Largest", "Last"], [row for row in rows if len(row) > 1], range(1, 5)), title
    )


def _ranking(grid: Grid) -> list[str]:
    """Say which row of the first table panel is the best."""
    first = next((frame for frame in _frames(grid) if frame.panel.kind == "table"), None)
    if first is None:
        return []
    return findings.of_table(
        frames.rows(grid, first), " · ".join(filter(None, (first.title, frames.y_label(grid, first.panel))))
    )


def _runs(saved: Saved) -> Table:
    names = [name for name in saved.data.column_names if name != "run"]
    rows = [["-" if row[n] is None else metrics.show(n, row[n]) if isinstance(row[n], float) else str(row[n]) for n in names]
            for row in saved.data.to_pylist()]  # fmt: skip
    known = [saved.figure.axis(a.name).name for a in saved.figure.axes] if saved.figure else []
    right = [at for at, name in enumerate(names) if name not in (*known, "warnings", "tuning")]
    return Table.of(Texts([metrics.label(name) for name in names], rows, right), "Every run", f"{len(rows)} runs", folded=True)
