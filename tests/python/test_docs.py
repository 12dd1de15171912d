"""The documents: link targets and named files exist, and the commands of pages print and draw what the pages show."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml
from matplotlib import image
from typer.testing import CliRunner

from flowloom import Scenario, sessions
from flowloom.claims import ledger
from flowloom.cli import app
from flowloom.figures import catalogue, reader

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
PAGES += sorted((ROOT / "examples").glob("**/*.md"))
SESSIONS = [page for page in PAGES if "```console" in page.read_text(encoding="utf-8")]
FIRST_RUN = (ROOT / "docs/first-run.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_sections_lead_to_a_heading(page):
    for path, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        if not path.startswith("http"):
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page):
    for name in re.findall(r"`((?:crates|tests|docs|examples|papers|data|python)/[\w./-]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.name)
def test_pages_show_what_their_commands_print_and_draw(clone, page):
    # `make docs` renews the pages.
    asked = []

    def run(command):
        asked.append(command)
        return sessions.run(command)

    text = page.read_text(encoding="utf-8")
    assert sessions.renewed(text, run) == text
    assert len(asked) >= 2 or "<!-- takes long -->" in text
    for drawn, kept in sessions.pictures(text).items():
        # Another version of matplotlib may lay out the same drawing a little differently.
        ours, theirs = (image.imread(path).shape[:2] for path in (drawn, page.parent / kept))
        assert ours == pytest.approx(theirs, rel=0.03), kept
        assert f"]({kept})" in text, kept


def test_pages_with_commands_are_those_that_make_docs_renews():
    (pattern,) = re.findall(r"python -m flowloom\.sessions (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert SESSIONS and set(SESSIONS) <= set(ROOT.glob(pattern))


PAGE = """\
<!-- shown: 1..2, -1; all; none -->
```console
$ one
1
2
…
5
$ two
old
$ three
```
<!-- takes long -->
```console
$ long
it took a while
```
"""


def test_a_page_is_renewed_from_its_commands():
    outputs = {"one": "1\n2\n3\n4\n5\n", "two": "new\n", "three": "much\n", "long": "it took longer\n"}
    assert sessions.renewed(PAGE, outputs.__getitem__) == PAGE.replace("old", "new")
    assert sessions.renewed(PAGE, outputs.__getitem__, every=True) == PAGE.replace("old", "new").replace("a while", "longer")
    for part in ("0", "6", "3..2", "-6"):
        with pytest.raises(ValueError, match="of an output with 5 lines"):
            sessions.selected(outputs["one"], part)
    assert sessions.selected(outputs["one"], "2..3") == "…\n2\n3\n…\n"
    code = "```python\nprint(6 * 7)\n```\n"
    assert sessions.renewed(f"{code}\n```text\nold\n```\n", sessions.run) == f"{code}\n```text\n42\n```\n"
    assert sessions.renewed(code, outputs.__getitem__) == code
    with pytest.raises(ValueError, match="3 commands, and its comment 2"):
        sessions.renewed(PAGE.replace("; none", ""), outputs.__getitem__)


def test_a_picture_is_copied_from_what_a_command_draws(tmp_path, monkeypatch):
    for name in ("examples", "papers", "docs/pictures"):
        (tmp_path / name).mkdir(parents=True)
    page, bare = tmp_path / "docs/page.md", tmp_path / "docs/bare.md"
    text = "<!-- picture: x.png as pictures/y.png -->\n```console\n$ flowloom draw x.png\nold\n```\n"
    long = text.replace("x.png", "z.png").replace("y.png", "w.png")
    page.write_text(f"{text}\n<!-- takes long -->\n{long}", encoding="utf-8")
    bare.write_text("no commands\n", encoding="utf-8")

    def draw(command):
        Path(shlex.split(command)[2]).write_bytes(b"drawn")
        return "new\n"

    monkeypatch.setattr(sessions, "run", draw)
    sessions.main(str(page), str(bare))
    assert page.read_text(encoding="utf-8").count("new") == 1
    assert [path.name for path in (tmp_path / "docs/pictures").iterdir()] == ["y.png"]
    sessions.main("--all", str(page))
    assert page.read_text(encoding="utf-8").count("new") == 2
    assert (tmp_path / "docs/pictures/w.png").read_bytes() == b"drawn"


def test_numbers_that_depend_on_the_machine_are_kept_if_nothing_else_differs():
    page = "```console\n$ run\nMean slowdown  1.5\nWall time (s)  0.21\n4 runs in 20 s\n```\n"
    assert sessions.renewed(page, lambda _: "Mean slowdown  1.5\nWall time (s)  3.4\n4 runs in 7 s\n") == page
    other = "Mean slowdown  1.6\nWall time (s)  3.4\n4 runs in 7 s\n"
    assert sessions.renewed(page, lambda _: other) == f"```console\n$ run\n{other}```\n"


def test_what_the_demo_says_to_try_next_works(clone):
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2].partition("\n\n")[0]
    (demo,) = re.findall(r"@\$\(BIN\)/flowloom (compare .*)", recipe.replace("\\\n", ""))
    (shown,) = re.findall(r"^\$ flowloom (compare papers/.*)$", FIRST_RUN, re.M)
    assert sorted(demo.split()) == sorted(shown.split())
    commands = re.findall(r"@echo '  \$\(BIN\)/flowloom (.*)'", recipe)
    assert len(commands) == 3
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, result.output
        assert result.stdout.strip()


def test_everybody_names_the_same_least_versions():
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["rust-version"]
    python = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"].removeprefix(
        ">="
    )
    assert f"needs Rust ≥ {rust}, Python ≥ {python}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Rust {rust} or later, Python {python} or later" in FIRST_RUN


def test_the_readme_shows_the_numbers_of_the_demo():
    readme = PAGES[0].read_text(encoding="utf-8")
    (table,) = (block for block in re.findall(r"^```\n(.*?)^```$", readme, re.M | re.S) if "Mean slowdown" in block)
    _, shown = FIRST_RUN.split("$ flowloom compare papers/", maxsplit=1)
    assert len(table.splitlines()) > 4 and set(table.splitlines()) <= set(shown.partition("```")[0].splitlines())


@pytest.mark.parametrize("page", [PAGES[0], PAGES[1]], ids=lambda page: page.name)
def test_scenarios_in_pages_are_complete(page):
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    assert Scenario.of(text).plan()


def test_a_citation_says_the_same_everywhere_and_has_what_its_format_asks_for():
    # https://citation-file-format.github.io: these keys are required; `type`, `version` and `license` are of software.
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software" and cited["message"]
    package = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
    assert {key: cited[key] for key in ("version", "license")} == {key: package[key] for key in ("version", "license")}
    (entry,) = re.findall(r"^```bibtex\n(.*?)^```$", PAGES[0].read_text(encoding="utf-8"), re.M | re.S)
    for key in ("title", "version", "license"):
        assert re.search(rf"^  {key} += {{{re.escape(cited[key])}}}", entry, re.M), key
    assert [{"name": name} for name in re.findall(r"author += {{(.*?)}}", entry)] == cited["authors"]


def test_the_python_of_the_first_run_runs(clone, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", FIRST_RUN, re.S)
    exec(compile(code, "first-run.md", "exec"), {"__name__": "__main__"})
    mean, _, *rows = capsys.readouterr().out.splitlines()
    assert f"# {mean}\n" in code
    assert len(rows) == 8
    (first,) = re.findall(r"print\(row\)  # (.*)…, …", code)
    assert rows[0].startswith(first)


@pytest.mark.parametrize("paper", ["phost", "pias", "pase", "top", "rivals"])
def test_the_readme_counts_the_verdicts_of_the_ledger(paper):
    figures, errors = reader.read_all(catalogue.figures(paper))
    assert not errors
    verdicts = Counter(entry.verdict for entry in ledger.entries(figures, today=lambda wanted: {}))
    counts = [verdicts.pop(verdict, 0) for verdict in ("holds", "calibrated", "undecided", "differs", "not yet run")]
    assert not verdicts
    row = next(line for line in PAGES[0].read_text(encoding="utf-8").splitlines() if f"(papers/{paper})" in line)
    assert [int(cell) for cell in re.findall(r"\| (\d+) (?=\|)", row)] == [sum(counts), *counts], row
