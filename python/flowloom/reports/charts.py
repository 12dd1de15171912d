"""Plots of what `plots.subjects` decides that results are shown as."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowloom import metrics, tables
from flowloom.plots import comparison, flows, over, samples, series, style
from flowloom.plots.bars import Member, counts
from flowloom.plots.comparison import METRICS, SLOWDOWN
from flowloom.plots.style import Look
from flowloom.plots.subjects import Course, Each, Many, Over, Recorded, Subject
from flowloom.reports import looks, panels
from flowloom.reports.content import Plots, Table
from flowloom.reports.panels import Legend
from flowloom.results import Results
from flowloom.stats import averaged

OVER_TIME = "Over time"
"""How the titles of plots of series begin."""


def of(subject: Subject) -> list[Plots]:
    """Return the plots of a subject, with what they share."""
    match subject:
        case Course(result, _):
            return [_course(result)]
        case Each(schemes, groups, _):
            return [_each(schemes, groups)]
        case Many(schemes, _, points):
            return [_many(schemes, points)]
        case Over():
            return [_over(subject)]
        case _:
            return _recorded(subject)


def _over(subject: Over) -> Plots:
    legend, shown = Legend(), []
    drawn: list[Member] = []
    for number, name in enumerate(subject.metrics):
        members = [over.member(each, name) for each in subject.series]
        drawn += members
        beside = over.others(subject.points, name, first=number == 0)
        slowdowns = over.is_slowdown(name)
        least, top = over.extent(members, beside)
        y = _values(metrics.label(name), least, top, slowdowns=slowdowns) | _percent(name)
        if subject.axis.at is None:
            traces = panels.bars(legend, members, log=y["log"], base=1.0 if slowdowns else 0.0)
        else:
            traces = panels.lines(legend, subject.axis.at, members)
        traces += [panels.dots(legend.number(look, "mark"), look, xs, ys) for look, xs, ys in beside]
        shown.append(panels.panel("", panels.keyed(subject.axis), y, traces))
    over_what = f" over {subject.axis.key}" if subject.axis.key else ""
    names = " and ".join(metrics.label(name) for name in subject.metrics)
    return Plots(f"{names}{over_what}", legend.keys, shown, over.note(drawn))


def _values(title: str, least: float, top: float, *, slowdowns: bool) -> dict[str, Any]:
    log = not math.isnan(top) and bool(over.is_log(least, top, slowdowns=slowdowns))
    return panels.axis(title, log=log, one=slowdowns and bool(least >= 1), zero=not slowdowns and bool(least >= 0))


def _percent(name: str) -> dict[str, Any]:
    return {"percent": True} if name in metrics.METRICS and metrics.METRICS[name].digits.endswith("%") else {}


def _many(schemes: Sequence[comparison.Scheme], points: Sequence[tuple[Look, Any]]) -> Plots:
    measure = comparison.measures(schemes)[0]
    legend, shown = Legend(), []
    size = None if points else comparison.only_size(schemes)
    slowdowns = measure == SLOWDOWN
    label = metrics.label(METRICS[measure])
    if size is None:
        found = comparison.means_by_size(schemes, measure)
        traces = [panels.line(legend.number(look), look, xs, ys, markers=True) for look, xs, ys in found]
        theirs = over.others(points, METRICS[measure], first=True)
        traces += [panels.dots(legend.number(look, "mark"), look, xs, ys) for look, xs, ys in theirs]
        heights = [y for each in found for y in each.ys] + [y for each in theirs for y in each.ys]
        y = _values(label, min(heights, default=math.nan), max(heights, default=math.nan), slowdowns=slowdowns)
        shown.append(panels.panel("By flow size", panels.axis("Flow size", log=True, sizes=True), y, traces))
    elif len(schemes) > 1:
        members = comparison.means(schemes, measure)
        y = _values(label, *over.extent(members, []), slowdowns=slowdowns)
        bars = panels.bars(legend, members, log=y["log"], base=1.0 if slowdowns else 0.0)
        shown.append(
            panels.panel(f"Flows of {metrics.size(size)}", panels.axis("", ticks=[0], labels=[""], groups=True), y, bars)
        )
    found = comparison.distributions(schemes, measure)
    values = [x for each in found for x in (each.xs.min(), each.xs.max())]
    x = _values(
        metrics.METRICS[measure].label, min(values, default=math.nan), max(values, default=math.nan), slowdowns=slowdowns
    )
    y = panels.axis(comparison.share_label(measure), log=True)
    shown.append(panels.panel("Distribution", x, y, [panels.line(legend.number(look), look, xs, ys) for look, xs, ys in found]))
    seeds = max(len(scheme.runs) for scheme in schemes)
    title = comparison.HEADINGS[measure]
    return Plots(
        title[:1].upper() + title[1:], legend.keys, shown, f"The flows of all {seeds} seeds are drawn together." * (seeds > 1)
    )


def _each(schemes: Sequence[comparison.Scheme], groups: Sequence[flows.Group]) -> Plots:
    legend, shown = Legend(), []
    names = [panels.words(group.label) for group in groups]
    beside = len([scheme for scheme in schemes if not scheme.look.bound])
    height = panels.height_of_rows(len(groups), beside)
    drawn: list[Member] = []
    for measure in comparison.measures(schemes)[::-1]:
        members = [flows.member(scheme, groups, measure) for scheme in schemes]
        drawn += members
        slowdowns = measure == SLOWDOWN
        x = _values(metrics.label(measure), *over.extent(members, []), slowdowns=slowdowns)
        y = panels.axis("", ticks=list(range(len(names))), labels=names, groups=True, down=True)
        traces = panels.bars(legend, members, log=x["log"], base=1.0 if slowdowns else 0.0, lying=True)
        shown.append(panels.panel("", x, y, traces, height))
    return Plots("Each flow", legend.keys, shown, averaged(counts(drawn)))


def _course(result: Results) -> Plots:
    """Show each flow from its start to its end."""
    rows, begin, _, unit, _ = flows.bars_of(result)
    look = style.transport(result.summary["transport"])
    legend = Legend()
    keys = {
        flows.ALONE: looks.key(look._replace(label=flows.ALONE), "bar"),
        flows.WAITING: looks.pale(look._replace(label=flows.WAITING)),
        flows.UNFINISHED: looks.pale(look._replace(label=flows.UNFINISHED, hatch="///")),
    }
    traces: list[dict[str, Any]] = []
    for name, key in keys.items():
        if found := [(row, *bar.parts[name]) for row, bar in enumerate(rows) if name in bar.parts]:
            at, begins, lengths = zip(*found, strict=True)
            text = [panels.words(f"{rows[row].label}: {rows[row].text}") for row in at]
            last = {} if name == flows.ALONE else {"label": [panels.words(rows[row].text) for row in at]}
            hatch = last | {"pattern": "/"} if name == flows.UNFINISHED else last
            trace = {"key": legend.add(key), "kind": "span", "at": at, "base": panels.numbers(begins), "text": text, **hatch}
            traces.append(trace | {"y": panels.numbers(lengths)})
    if late := [(row, bar.deadline) for row, bar in enumerate(rows) if bar.deadline is not None]:
        mark = style.Look("deadline", style.VERMILLION, "|", "-", "")
        traces.append(panels.dots(legend.number(mark, "mark"), mark, [at for _, at in late], [float(row) for row, _ in late]))
    names = [panels.words(bar.label) for bar in rows]
    y = panels.axis("", ticks=list(range(len(names))), labels=names, groups=True, down=True)
    x = panels.axis(f"Time ({unit})", zero=begin == 0)
    note = "" if rows else "No flow has started."
    shown = panels.panel("", x, y, traces, panels.height_of_rows(len(names)))
    return Plots("Flows from start to end", legend.keys, [shown], note)


def _recorded(subject: Recorded) -> list[Plots]:
    schemes, name = subject.schemes, subject.name
    if name not in series.names(schemes):
        return []
    if name in samples.KINDS:
        return [_sampled([each for each in series.sampled(schemes) if name in each.series], name)]
    legend = Legend()
    having = [(look, table) for look, table in series.tables(schemes, name) if table.num_rows > 1]
    if not having:
        return []  # one point shows no course
    x, *ys = having[0][1].column_names
    shown = []
    for y in ys:
        traces = [
            panels.course(legend.number(look), look, table[x].to_numpy().astype(float), table[y].to_numpy().astype(float))
            for look, table in having
        ]
        shown.append(panels.panel("", _column(x), _column(y) | {"zero": True}, traces))
    return [Plots(f"{OVER_TIME}: {name}", legend.keys, shown)]


def _sampled(runs: Sequence[samples.Shown], name: str) -> Plots:
    legend, shown = Legend(), []
    found, unit = samples.arranged(runs, [name])
    times = [at for _, columns in found for lines in columns for each in lines for at in (each.at[0], each.at[-1])]
    x = panels.axis(f"Time ({unit})", low=min(times, default=None), high=max(times, default=None))
    for title, columns in found:
        values = [float(np.nanmax(each.values)) for lines in columns for each in lines]
        # The panels of several runs have one scale.
        y = panels.axis(title, zero=True, high=1.06 * max(values) if len(runs) > 1 and max(values, default=0) > 0 else None)
        for run, lines in zip(runs, columns, strict=True):
            traces = [
                panels.course(legend.number(look._replace(label=key)), look, at, values) for key, look, at, values in lines
            ]
            shown.append(panels.panel(run.title if len(runs) > 1 else "", x, y, traces, 260))
    return Plots(f"{OVER_TIME}: {name}", legend.keys, shown)


def _column(name: str) -> dict[str, Any]:
    """Return the axis of a column of a series."""
    return panels.axis(series.label(name)) | ({"percent": True} if name.endswith("_share") else {})


def summary(plots: Plots) -> Table:
    """Return the least, the mean and the largest of the values of each line, for readers without a plot."""
    rows = []
    for panel in plots.panels:
        for trace in panel["traces"]:
            values = [value for value in trace["y"] if value is not None]
            if values:
                found = (min(values), statistics.fmean(values), max(values))
                name = ": ".join(filter(None, (panel["title"], html.unescape(panel["y"]["title"]))))
                rows.append([plots.keys[trace["key"]].name, name, *(metrics.significant(value, 4) for value in found)])
    return Table.of(tables.Table(["", "", "Least", "Mean of samples", "Largest"], rows, (2, 3, 4)), plots.title, folded=True)
