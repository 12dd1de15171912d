from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from flowloom.figures import reader
from flowloom.figures.paper import run_figure
from flowloom.progress import Bars, Plain


def batch(reporter, name, runs, *, kept, finish):
    """Begin a batch, end some of its runs, and report the next one halfway."""
    reporter.begin(runs, kept=kept)
    for number in range(finish):
        reporter.finished(f"{name} {number}", "a run")
    reporter.progress(f"{name} {finish}", "a run", 0.5, 0.001, 1000)


def test_a_line_counts_the_runs_of_its_own_batch(capsys):
    with Plain(every_s=0) as reporter:
        batch(reporter, "first", 4, kept=0, finish=3)
        reporter.finished("first 3", "a run")
        capsys.readouterr()
        batch(reporter, "second", 4, kept=4, finish=1)
    said = capsys.readouterr().err
    assert said.startswith("4 runs to simulate, 4 finished before\n1 of 4 runs done,  38%, a run at 1.000 ms")


def test_the_bar_of_all_runs_is_that_of_the_batch():
    with Bars() as reporter:
        batch(reporter, "first", 4, kept=0, finish=3)
        reporter.finished("first 3", "a run")
        batch(reporter, "second", 2, kept=4, finish=1)
        total, run = reporter._bars.tasks
        assert total.description == "[bold]2 runs (4 finished before)"
        assert (total.percentage, run.percentage) == (75, 50)
        assert total.fields["note"].startswith("1 of 2 done")
        # A single run needs no bar of all runs, so that of the batch before it must go.
        reporter.finished("second 1", "a run")
        batch(reporter, "third", 1, kept=6, finish=0)
        assert [task.description for task in reporter._bars.tasks] == ["a run"]


def test_more_seeds_for_an_undecided_claim_are_a_batch_of_their_own(papers, capsys):
    # With two seeds tiny/1 is undecided, and with four seeds it is decided.
    with ThreadPoolExecutor(1) as executor, Plain(every_s=0) as reporter:
        figure, where = reader.read(papers / "fig1.toml"), {"out": papers / "out", "runs": papers / "runs"}
        outcome = run_figure(figure, "quick", **where, executor=executor, reporter=reporter)
    assert outcome.seeds == 4
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" in ")[0] for line in lines if "runs" in line] == [
        "12 runs to simulate",
        "12 runs done",
        "12 runs to simulate, 12 finished before",
        "12 runs done",
    ]
