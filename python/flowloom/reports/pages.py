"""Writes pages: `flowloom.report`."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from flowloom import outputs, storage
from flowloom._native import ScenarioError
from flowloom.claims.listing import Ledger
from flowloom.comparisons import Comparison
from flowloom.reports import ledger, sections
from flowloom.results import Results
from flowloom.sweeps import Sweep
from flowloom.words import is_text, printable

if TYPE_CHECKING:
    import jinja2

Reported: TypeAlias = "str | os.PathLike[str] | Results | Comparison | Sweep"
"""A directory of a run, a comparison, a sweep or a figure, or what Python has of one."""
_BEGIN = '<!doctype html>\n<html lang="en" data-flowloom="'
"""How the pages begin that Flowloom has written. A key of what they report follows."""


class _Page(NamedTuple):
    """What the frame of a page needs."""

    title: str
    kind: str
    key: str
    plotly: bool
    version: str


def report(
    what: Reported | Ledger | Sequence[Reported], out: str | os.PathLike[str] | None = None, *, force: bool = False
) -> Path:
    """Write a page of HTML about results, or about the ledger of claims. The page is one file, and needs no network.

    Args:
        what: A directory that `run`, `compare`, `sweep` or `flowloom paper run` has written, or a result in memory, or several
            of these, each of which gets a section; or the ledger.
        out: The file. By default the page is beside the only directory, or the first one, and has its name and `.html`.
        force: Also replace the page of other results. Files that Flowloom did not write are never replaced.

    Returns:
        The file.

    Raises:
        ScenarioError: A directory holds no result, a file is damaged, there is nothing to show, or `out` may not be replaced.
        OSError: The disk is full or cannot be written to.
    """
    if isinstance(what, Ledger):
        target = Path(out or Path("results") / "claims.html")
        _check(target, "claims", force)
        return _written(target, "ledger.html", ledger.context(what), "the claims ledger", "claims")
    every = [what] if isinstance(what, str | os.PathLike | Results | Comparison | Sweep) else list(what)
    if not every:
        raise ScenarioError("there is nothing to report; give a result or a directory")
    target = Path(out) if out is not None else _default(every)
    key = _key(every)
    _check(target, key, force)
    loaded = [sections.load(each) if isinstance(each, str | os.PathLike) else each for each in every]
    found = [sections.of(each, number) for number, each in enumerate(loaded, 1)]
    return _written(target, "report.html", {"sections": found, "title": sections.titles(found)}, "report", key)


def _default(every: Sequence[Any]) -> Path:
    first = next((Path(each) for each in every if isinstance(each, str | os.PathLike)), None)
    directory = getattr(every[0], "directory", None) if first is None else first
    if directory is None:
        raise ScenarioError("this result has no directory to lay the page beside; give `out`, such as report.html")
    whole = Path(os.path.realpath(directory))
    return Path(directory).parent / f"{whole.name}.html" if Path(directory).name == whole.name else Path(f"{whole}.html")


def _key(every: Sequence[Any]) -> str:
    """Return the key of what a page reports: the directories, or the results by their own keys."""
    names = [str(Path(each).resolve()) if isinstance(each, str | os.PathLike) else _own(each) for each in every]
    for name in names:
        if not is_text(name):
            raise ScenarioError(f"{name}: this is not UTF-8 text, and a page names its directories; rename it")
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:20]


def _own(what: Results | Comparison | Sweep) -> str:
    if isinstance(what, Results):
        return str(what.provenance.get("key", ""))
    sweep = what.sweep if isinstance(what, Comparison) else what
    return " ".join(run.key for run in sweep)


def _check(target: Path, key: str, force: bool) -> None:
    if target.suffix not in (".html", ".htm"):
        raise ScenarioError(f"{target}: give a .html file")
    outputs.check_file(target, _BEGIN, f'{_BEGIN}{key}"', "it is a page about other results", force=force)


def _written(target: Path, template: str, context: dict[str, Any], kind: str, key: str) -> Path:
    text = _environment().get_template(template)
    plots = bool(context.get("plots", any(section.plots for section in context.get("sections", ()))))
    page = _Page(context["title"], kind, key, plots, version("flowloom"))
    html = text.render(
        page=page, style=_asset("style.css"), script=_asset("report.js"), plotly=_plotly() if plots else "", **context
    )
    with storage.whole_file(target) as fresh:
        storage.write_text(fresh, html)
    return target


def _asset(name: str) -> Any:
    """Return a file that is part of each page; it is our own, and not escaped."""
    from markupsafe import Markup

    return Markup((Path(__file__).parent / "templates" / name).read_text(encoding="utf-8"))


def _plotly() -> Any:
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())


def _unbroken(text: str) -> Any:
    """Return a sentence in which no line ends before a percent sign."""
    from markupsafe import Markup, escape

    return Markup(str(escape(printable(text))).replace(" %", "&nbsp;%").replace(" ± ", "&nbsp;±&nbsp;"))


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2
    from markupsafe import Markup

    def clean(value: Any) -> Any:
        # Text may reorder what follows, or hide it, in pages as in terminals.
        return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    made = jinja2.Environment(
        loader=loader, autoescape=True, finalize=clean, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["unbroken"] = _unbroken
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "ensure_ascii": False, "separators": (",", ":")}
    return made
