"""No result is lost: where results may be written, by which process, and what is left after a full disk or a crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import flowloom
from conftest import SMALL
from flowloom import ScenarioError, outputs, overlays, scenario, storage
from flowloom.locks import HeldError, locked
from flowloom.results import MARKER
from test_cli import call


@pytest.fixture(scope="module")
def result():
    return flowloom.run(SMALL)


@pytest.fixture(scope="module")
def other():
    return flowloom.run(SMALL, run__seed=2)


@pytest.fixture
def tiny(fake, tmp_path, monkeypatch):
    """A scenario for the fake simulator, which counts its runs."""
    path = tmp_path / "tiny.toml"
    path.write_text("[workload]\nflows = 10\n")
    simulate, made = fake.run, []

    def run(*words):
        made.append(words)
        return simulate(*words)

    monkeypatch.setattr(fake, "run", run)
    return path, made


def sweep(out: Path, *, force: bool = False, seeds: int = 1, **axes: list) -> flowloom.Sweep:
    """Sweep in threads, since worker processes would not have the fake simulator."""
    varied = {key.replace("__", "."): values for key, values in axes.items()}
    with ThreadPoolExecutor(1) as executor:
        return flowloom.sweep("[workload]\nflows = 10\n", varied, executor=executor, out=out, force=force, seeds=seeds)


def content(folder: Path) -> dict[str, bytes]:
    paths = {name: folder / name for name in storage.files_below(folder)}
    return {name: str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() for name, path in paths.items()}


def seed_in(folder: Path) -> int:
    found = flowloom.load(folder)
    assert found.flows.num_rows == found.summary["flows"]
    return found.summary["seed"]


# The content of a directory


FOREIGN = ["notes.md", "series/notes.md", "mine/thesis.tex", ".git/config", "flows.parquet.bak", "plot.png"]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_beside_a_result_is_refused_and_outlives_force(result, other, tmp_path, name):
    folder = result.save(tmp_path / "r")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("precious")
    before = content(folder)
    for again in (result, other):
        with pytest.raises(ScenarioError, match="it holds something else"):
            again.save(folder)
        assert content(folder) == before
    other.save(folder, force=True)
    assert (folder / name).read_text() == "precious"
    assert seed_in(folder) == 2


def test_force_names_the_foreign_file_that_it_would_have_to_replace(result, tmp_path):
    for name in ("summary.json", "flows.csv", "series"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("precious")
        with pytest.raises(ScenarioError, match=f"{name} in it was not written by Flowloom"):
            result.save(folder, force=True, csv=True)
        assert content(folder) == {name: b"precious"}


def test_a_file_that_became_a_folder_is_not_ours_any_more(result, tmp_path):
    folder = result.save(tmp_path / "r")
    (folder / "flows.parquet").unlink()
    (folder / "flows.parquet").mkdir()
    (folder / "flows.parquet" / "notes.md").write_text("precious")
    for force in (False, True):
        with pytest.raises(ScenarioError, match=r"flows\.parquet"):
            result.save(folder, force=force)
    assert (folder / "flows.parquet" / "notes.md").read_text() == "precious"


def test_links_in_a_result_are_not_followed(result, tmp_path):
    folder = result.save(tmp_path / "r")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pending.parquet").write_text("precious")
    (folder / "series" / "pending.parquet").unlink()
    (folder / "series").rmdir()
    (folder / "series").symlink_to(elsewhere)
    for force in (False, True):
        with pytest.raises(ScenarioError, match="series"):
            result.save(folder, force=force)
    assert (elsewhere / "pending.parquet").read_text() == "precious"


def test_a_manifest_from_elsewhere_cannot_name_what_is_not_ours(result, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    folder = result.save(tmp_path / "r")
    (folder / "notes.md").write_text("precious")
    found = json.loads((folder / MARKER).read_text())
    found["files"] += ["../thesis.tex", "notes.md", str(tmp_path / "thesis.tex")]
    (folder / MARKER).write_text(json.dumps(found))
    with pytest.raises(ScenarioError, match=r"something else \(notes.md"):
        result.save(folder)
    result.save(folder, force=True)
    assert (folder / "notes.md").read_text() == (tmp_path / "thesis.tex").read_text() == "precious"


def test_the_same_may_be_repeated_and_another_scenario_or_build_only_by_force(result, other, tmp_path, monkeypatch):
    folder = result.save(tmp_path / "r")
    result.save(folder)
    with pytest.raises(ScenarioError, match="the result of another scenario or seed"):
        other.save(folder)
    assert seed_in(folder) == 1
    other.save(folder, force=True)
    assert seed_in(folder) == 2
    for module in (scenario, outputs):
        monkeypatch.setattr(module, "engine_id", lambda: "another")
    with pytest.raises(ScenarioError, match="from another build of the simulator"):
        flowloom.run(SMALL, out=folder, run__seed=2)
    flowloom.run(SMALL, out=folder, run__seed=2, force=True)


@pytest.mark.parametrize("marker", ["{}", "{", "", '{"files": 3}', "[]", '{"engine": 1, "key": null}'])
def test_a_result_with_a_damaged_marker_is_only_replaced_by_force(result, tmp_path, marker):
    folder = result.save(tmp_path / "r")
    (folder / MARKER).write_text(marker)
    with pytest.raises(ScenarioError, match=r"provenance\.json is damaged"):
        result.save(folder)
    result.save(folder, force=True)
    assert seed_in(folder) == 1


def test_one_kind_of_directory_never_replaces_another(tiny, tmp_path):
    path, made = tiny
    call("run", path, "--out", tmp_path / "run")
    sweep(tmp_path / "sweep", workload__load=[0.3])
    made.clear()
    for force in ([], ["--force"]):
        error = call("sweep", path, "--vary", "workload.load=0.3", "--out", tmp_path / "run", *force, code=2).stderr
        assert "it holds the result of a run, not a sweep" in error
        error = call("run", path, "--out", tmp_path / "sweep", *force, code=2).stderr
        assert "it holds a sweep, not the result of a run" in error
    assert not made


# The place of a directory


def never(*_):
    raise AssertionError("simulated before looking where the result goes")


def places(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.md").write_text("precious")
    (tmp_path / "to_full").symlink_to(tmp_path / "full")
    (tmp_path / "to_file").symlink_to(tmp_path / "file")
    return {
        "a file": (tmp_path / "file", "it is not a directory"),
        "below a file": (tmp_path / "file" / "sub", "file is not a directory"),
        "far below a file": (tmp_path / "file" / "sub" / "sub", "file is not a directory"),
        "a link to a file": (tmp_path / "to_file", "it is not a directory"),
        "a dangling link": (tmp_path / "dangling", "nowhere, which does not exist"),
        "below a dangling link": (tmp_path / "dangling" / "sub", "nowhere, which does not exist"),
        "a loop": (tmp_path / "loop", "loop"),
        "a folder of something else": (tmp_path / "full", "it holds something else (notes.md)"),
        "a link to one": (tmp_path / "to_full", "it holds something else (notes.md)"),
        "too long a name": (tmp_path / ("x" * 300), "File name too long"),
        "a device": (Path("/dev/null"), "it is not a directory"),
        "where nothing can be made": (Path("/proc/nothing"), "No such file"),
    }


PLACES = [
    "a file", "below a file", "far below a file", "a link to a file", "a dangling link", "below a dangling link", "a loop",
    "a folder of something else", "a link to one", "too long a name", "a device", "where nothing can be made",
]  # fmt: skip


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("command", ["run", "sweep", "compare", "paper", "thresholds"])
def test_a_target_is_tested_before_anything_is_simulated(fake, papers, tmp_path, monkeypatch, command, where):
    monkeypatch.setattr(fake, "run", never)
    monkeypatch.setattr("flowloom.sweeps.run_jobs", never)
    monkeypatch.setattr("flowloom.figures.paper.run_jobs", never)
    monkeypatch.setattr("flowloom.demotion.analytic.thresholds", never)
    (tmp_path / "s.toml").write_text("")
    out, complaint = places(tmp_path)[where]
    words = {
        "run": ["run", "s.toml"],
        "sweep": ["sweep", "s.toml", "--vary", "workload.load=0.3"],
        "compare": ["compare", "s.toml", "--transports", "phost"],
        "paper": ["paper", "run", "tiny/fig1"],
        "thresholds": ["thresholds", "--sizes", "web_search", "--load", "0.8"],
    }[command]
    before = content(tmp_path)
    error = call(*words, "--out", out, code=2).stderr
    assert error.startswith(f"error: cannot write to {out}: ")
    assert complaint in error
    assert content(tmp_path) == before


def test_the_working_directory_inside_a_result_is_written_in_place(result, tmp_path, monkeypatch):
    folder = result.save(tmp_path / "r")
    monkeypatch.chdir(folder)
    inode = Path.cwd().stat().st_ino
    result.save(".")
    assert Path.cwd().stat().st_ino == inode == folder.stat().st_ino
    assert seed_in(folder) == 1
    monkeypatch.chdir(folder / "series")
    with pytest.raises(ScenarioError, match="something else"):
        result.save(".")


def test_a_linked_directory_is_written_through(result, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    for _ in range(2):
        result.save(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert seed_in(tmp_path / "disk") == 1


@pytest.fixture
def mount(tmp_path):
    """Mount an empty file system, if permissions allow it."""
    mounted = []

    def make(name: str, *options: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("this process must not mount file systems")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_mount_point_is_written_in_place(result, mount):
    folder = mount("disk")
    for _ in range(2):
        result.save(folder)
        assert folder.is_mount()
        assert seed_in(folder) == 1


def test_what_is_read_only_is_found_before_the_run(fake, mount, tmp_path, monkeypatch):
    monkeypatch.setattr(fake, "run", never)
    (tmp_path / "s.toml").write_text("")
    folder = mount("disk", "-o", "ro")
    for out in (folder, folder / "new"):
        assert "Read-only file system" in call("run", tmp_path / "s.toml", "--out", out, code=2).stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="modes do not bind root; the test above has a read-only file system")
def test_a_folder_without_permission_is_found_before_the_run(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(fake, "run", never)
    (tmp_path / "s.toml").write_text("")
    (tmp_path / "locked").mkdir(mode=0o500)
    for out in (tmp_path / "locked", tmp_path / "locked" / "new"):
        assert "Permission denied" in call("run", tmp_path / "s.toml", "--out", out, code=2).stderr


def test_a_disk_that_fills_up_leaves_the_result_that_was_there(other, result, mount):
    folder = mount("disk", "-o", "size=100k")
    result.save(folder)
    before = content(folder)
    with pytest.raises(OSError, match="No space left"):
        (folder / "fill").write_bytes(bytes(200_000))
    with pytest.raises((OSError, ScenarioError)):
        other.save(folder, force=True)
    assert {name: data for name, data in content(folder).items() if name != "fill"} == before


def test_a_refused_or_failed_run_leaves_no_trace(fake, tmp_path):
    (tmp_path / "s.toml").write_text('[workload]\nkind = "fails"\n')
    call("run", tmp_path / "s.toml", "--out", tmp_path / "r", code=1)
    assert [p.name for p in tmp_path.iterdir()] == ["s.toml"]


def test_another_command_may_remove_the_empty_folder_above_a_new_one(fake, tmp_path, monkeypatch):
    """Two commands in a fresh `results`: the one that ends without a file removes what the other has begun to make."""
    make, made = Path.mkdir, []

    def made_and_removed(path, *arguments, **options):
        make(path, *arguments, **options)
        if path.name == "results" and not made:
            made.append(path)
            path.rmdir()

    monkeypatch.setattr(Path, "mkdir", made_and_removed)
    (tmp_path / "s.toml").write_text('[workload]\nkind = "poisson"\n')
    flowloom.run(tmp_path / "s.toml", out=tmp_path / "results" / "r")
    assert made and (tmp_path / "results" / "r" / MARKER).exists()


# Sweeps, comparisons, figures, thresholds, imported tables


def test_a_sweeps_table_is_only_replaced_by_one_that_has_all_of_its_runs(fake, tmp_path):
    out = tmp_path / "s"
    sweep(out, workload__load=[0.2, 0.4])
    sweep(out, workload__load=[0.2, 0.4])
    sweep(out, workload__load=[0.4, 0.2, 0.6], seeds=2)
    before = content(out)
    for axes in ({"workload__load": [0.2, 0.4]}, {"transport__name": ["phost"]}, {"workload__load": [0.3]}):
        with pytest.raises(ScenarioError, match="the table of another sweep"):
            sweep(out, **axes)
        assert content(out) == before
    sweep(out, workload__load=[0.3], force=True)
    kept = content(out)
    assert len((out / "sweep.csv").read_text().splitlines()) == 2
    assert {name: data for name, data in before.items() if name.startswith("runs/")}.items() <= kept.items()


def test_a_sweeps_table_names_the_folders_of_its_runs(fake, tmp_path):
    done = sweep(tmp_path / "s", workload__load=[0.2, 0.4])
    names = done.table()["run"].to_pylist()
    assert names == [run.key for run in done]
    for run, name in zip(done, names, strict=True):
        assert flowloom.load(tmp_path / "s" / "runs" / name).summary == run.results.summary


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_a_damaged_table_is_made_anew_by_the_same_sweep_alone(fake, tmp_path, damage):
    out = tmp_path / "s"
    sweep(out, workload__load=[0.2, 0.4])
    whole = (out / "sweep.parquet").read_bytes()
    (out / "sweep.parquet").write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    with pytest.raises(ScenarioError, match="the table of another sweep"):
        sweep(out, workload__load=[0.3])
    sweep(out, workload__load=[0.2, 0.4])
    assert (out / "sweep.parquet").read_bytes() == whole


@pytest.mark.parametrize("name", ["notes.md", "mine/notes.md", "compare.png"])
def test_a_sweep_with_foreign_files_goes_on_by_force_and_leaves_them(fake, tmp_path, name):
    out = tmp_path / "s"
    sweep(out, workload__load=[0.2])
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("precious")
    with pytest.raises(ScenarioError, match="something else"):
        sweep(out, workload__load=[0.2])
    if name.endswith("png"):
        with pytest.raises(ScenarioError, match=r"compare\.png in it was not written by Flowloom"):
            sweep(out, workload__load=[0.2], force=True)
    else:
        sweep(out, workload__load=[0.2], force=True)
    assert (out / name).read_text() == "precious"


def test_a_comparison_may_be_repeated_with_its_pictures(scenario, tmp_path):
    words = ["compare", scenario, "--transports", "ideal", "--jobs", 1, "--out", tmp_path / "c"]
    for _ in range(2):
        call(*words)
        assert {"compare.png", "compare.svg", "sweep.csv"} <= content(tmp_path / "c").keys()
    (tmp_path / "c" / "notes.md").write_text("precious")
    assert "something else (notes.md)" in call(*words, code=2).stderr


def test_a_figure_with_other_keys_does_not_replace_it(papers):
    few, more = ["--set", "workload.flows=50", "--set", "workload.sizes=imc10"], ["--set", "workload.flows=60"]
    words = ["paper", "run", "tiny/fig1", "--jobs", 1, "--out", "f"]
    for again in (few, few[2:] + few[:2]):
        call(*words, *again)
    said = 'it holds another figure or scale, or other keys (tiny/fig1 quick workload.flows=50 workload.sizes="imc10")'
    for others in ([], more):
        assert said in " ".join(call(*words, *others, code=2).stderr.split())
    call(*words, *more, "--force")


def test_a_figure_does_not_replace_another_scale_or_another_figure(papers, tmp_path):
    (papers / "fig2.toml").write_text((papers / "fig1.toml").read_text().replace("tiny/", "tiny/2"))
    call("paper", "run", "tiny/fig1", "--jobs", 1, "--out", "f")
    call("paper", "run", "tiny/fig1", "--jobs", 1, "--out", "f")
    before = content(tmp_path / "f")
    for words in (["tiny/fig1", "--scale", "full"], ["tiny/fig2"]):
        error = call("paper", "run", *words, "--out", "f", code=2).stderr
        assert "it holds another figure or scale, or other keys (tiny/fig1 quick)" in error
    (tmp_path / "f" / "notes.md").write_text("precious")
    assert "something else" in call("paper", "run", "tiny/fig1", "--out", "f", code=2).stderr
    call("paper", "run", "tiny/fig2", "--jobs", 1, "--out", "f", "--force")
    after = content(tmp_path / "f")
    assert after.keys() == {name.replace("fig1", "fig2") for name in before} | {"notes.md"}


def test_thresholds_do_not_replace_those_for_another_question(tmp_path):
    words = ["thresholds", "--sizes", "web_search", "--queues", 2, "--no-check", "--out", tmp_path / "t"]
    call(*words, "--load", 0.8)
    assert "thresholds for other arguments" in call(*words, "--load", 0.7, code=2).stderr
    call(*words, "--load", 0.7, "--force")


def test_an_import_replaces_nothing_but_an_unchanged_import_of_the_same_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = "bytes,cumulative_probability\n1000,0\n2000,1\n"
    for name in ("a.csv", "b.csv"):
        Path(name).write_text(table)
    Path("own").mkdir()
    Path("own/sizes.csv").write_text(table)
    assert "it holds something else (sizes.csv)" in call("import", "own/sizes.csv", "--out", "own", code=2).stderr
    assert (
        "sizes.csv in it was not written by Flowloom"
        in call("import", "own/sizes.csv", "--out", "own", "--force", code=2).stderr
    )
    assert "it is not a directory" in call("import", "a.csv", "--out", "b.csv", code=2).stderr
    assert Path("a.csv").read_text() == Path("b.csv").read_text() == Path("own/sizes.csv").read_text() == table
    call("import", "a.csv", "--out", "made")
    call("import", "a.csv", "--out", "made")
    assert "the import of other files (flowloom import a.csv)" in call("import", "b.csv", "--out", "made", code=2).stderr
    call("import", "b.csv", "--out", "made", "--force")
    assert "# source: b.csv" in Path("made/sizes.csv").read_text()
    # A scenario is there to be changed.
    changed = Path("made/scenario.toml").read_text() + "\n[run]\nseed = 2\n"
    Path("made/scenario.toml").write_text(changed)
    assert "its scenario.toml was changed" in call("import", "b.csv", "--out", "made", code=2).stderr
    assert Path("made/scenario.toml").read_text() == changed
    call("import", "b.csv", "--out", "made", "--force")
    assert "seed" not in Path("made/scenario.toml").read_text()


# Two processes at once


def test_the_second_of_two_is_told_who_is_first(tiny, tmp_path):
    path, made = tiny
    out = tmp_path / "r"
    with outputs.claim(out, outputs.RESULT, "k"):
        error = call("run", path, "--out", out, code=2).stderr
    assert f"it is in use: process {os.getpid()} on " in error
    assert "has held the lock since 20" in error
    assert not made
    assert not out.exists()


def test_of_many_at_once_one_wins_at_a_time_and_the_result_is_whole(result, tmp_path):
    out, ends = tmp_path / "r", []
    start = threading.Barrier(8)

    def save():
        start.wait()
        try:
            result.save(out)
            ends.append("saved")
        except ScenarioError as error:
            assert "it is in use" in str(error)
            ends.append("told")

    threads = [threading.Thread(target=save) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 8
    assert "saved" in ends
    assert seed_in(out) == 1
    assert not [name for name in content(out) if name.startswith(".flowloom")]


def test_runs_of_a_store_wait_for_each_other(result, tmp_path):
    from flowloom.jobs import Store

    store = Store(tmp_path)
    threads = [threading.Thread(target=store.keep, args=("k", result.without_flows() if n < 0 else result)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.find("k").summary == result.summary


def test_a_lock_that_a_killed_process_held_is_free(tmp_path):
    (tmp_path / "stale.lock").write_text('{"pid": 1, "host": "elsewhere", "since": "1999-01-01"}')
    with locked(tmp_path / "stale.lock"):
        found = json.loads((tmp_path / "stale.lock").read_text())
        assert found["pid"] == os.getpid()
    hold = "import sys, time, pathlib\nfrom flowloom.locks import locked\n"
    hold += "with locked(pathlib.Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(600)\n"
    child = subprocess.Popen([sys.executable, "-c", hold, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    with pytest.raises(HeldError, match=f"process {child.pid} on "), locked(tmp_path / "lock"):
        pass
    child.kill()
    child.wait()
    child.stdout.close()
    assert (tmp_path / "lock").exists()
    with locked(tmp_path / "lock"):
        pass
    assert not (tmp_path / "lock").exists()


# A crash at every step


def test_files_are_on_the_disk_before_they_take_their_places(result, tmp_path, monkeypatch):
    synced, unsynced = set(), []
    sync, move = storage.sync, outputs._move

    def noting(path):
        synced.add(path.stat().st_ino)
        sync(path)

    def checking(name, source, target):
        if source.name == "new" and (source / name).stat().st_ino not in synced:
            unsynced.append(name)
        move(name, source, target)

    monkeypatch.setattr(storage, "sync", noting)
    monkeypatch.setattr(outputs, "_move", checking)
    folder = result.save(tmp_path / "r")
    assert not unsynced
    assert {(folder / name).stat().st_ino for name in content(folder)} <= synced
    assert folder.stat().st_ino in synced


class Killed(BaseException):
    """Simulates a process that is killed between two steps."""


def moves_of_an_exchange(result, other, folder) -> int:
    count = 0
    move = outputs._move

    def counting(*where):
        nonlocal count
        count += 1
        move(*where)

    with pytest.MonkeyPatch.context() as patch:
        result.save(folder)
        patch.setattr(outputs, "_move", counting)
        other.save(folder, force=True)
    return count


@pytest.mark.parametrize("before", [True, False], ids=["over a result", "new"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "failed"])
def test_a_replacement_that_breaks_off_at_any_step_loses_nothing(result, other, tmp_path, killed, before):
    steps = moves_of_an_exchange(result, other, tmp_path / "count")
    assert steps >= 10
    for step in range(steps):
        folder = tmp_path / str(step)
        if before:
            result.save(folder)
        done, move = 0, outputs._move

        def breaking(*where, step=step, move=move):
            nonlocal done
            if done == step:
                done += 1
                raise Killed if killed else OSError(5, "Input/output error")
            done += 1
            move(*where)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(outputs, "_move", breaking)
            if killed:  # a killed process does not undo its steps
                patch.setattr(outputs.Output, "_restore", lambda *_: None)
                patch.setattr(outputs.shutil, "rmtree", lambda *_, **__: None)
            try:
                other.save(folder, force=True)
            except (Killed, OSError):
                pass
            else:
                assert not before, "an exchange has fewer steps than were counted"
        if killed and before:
            # The directory is not a result until the next claim restores it.
            if not (folder / MARKER).exists():
                with pytest.raises(ScenarioError, match="not a results directory"):
                    flowloom.load(folder)
            with outputs.claim(folder, outputs.RESULT, result.provenance["key"], force=True):
                pass
        if before:
            assert seed_in(folder) == 1
            assert not [name for name in content(folder) if name.startswith(".flowloom")]
        other.save(folder, force=True)
        assert seed_in(folder) == 2
        assert content(folder).keys() == content(tmp_path / "count").keys()


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_while_files_change_places_is_heard_afterwards(result, other, tmp_path, monkeypatch, times):
    folder = result.save(tmp_path / "r")
    move, pressed = outputs._move, []

    def interrupting(*where):
        if len(pressed) < times:
            pressed.append(where)
            signal.raise_signal(signal.SIGINT)
        move(*where)

    monkeypatch.setattr(outputs, "_move", interrupting)
    with pytest.raises(KeyboardInterrupt):
        other.save(folder, force=True)
    # A second signal is delivered at once, and leaves the earlier result unchanged.
    assert seed_in(folder) == {1: 2, 2: 1}[times]
    assert not [name for name in content(folder) if name.startswith(".flowloom")]


def test_a_whole_file_is_written_through_links_and_its_temporary_name_is_its_own(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    with storage.whole_file(tmp_path / "link.csv") as one, storage.whole_file(tmp_path / "link.csv") as two:
        assert one != two
        assert one.suffix == ".csv"
        one.write_text("one")
        two.write_text("two")
    assert (tmp_path / "real.csv").read_text() == "one"
    assert (tmp_path / "link.csv").is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.csv", "real.csv"]


def test_figures_that_are_run_at_the_same_time_keep_each_others_claims(papers):
    from flowloom.claims import ledger
    from flowloom.claims.entries import About, OfClaim
    from flowloom.figures import catalogue, reader

    figure = reader.read(catalogue.figure_path("tiny/fig1"))
    about = About(seeds=1, seconds=1.0, date="2026-01-01")
    start = threading.Barrier(8)

    def record(number):
        start.wait()
        ledger.record(figure, "quick", {f"tiny/{number}": OfClaim(verdict="holds", checks=[])}, about)

    threads = [threading.Thread(target=record, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads((papers / "claims.json").read_text())) == 8


# The names of directories


def test_a_colon_in_the_name_of_a_directory_makes_no_address_of_it(scenario, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = ["--set", "workload.flows=20"]
    call("sweep", scenario, *few, "--vary", "workload.load=0.2", "--out", "load:0.8", "--jobs", 1)
    (run,) = (tmp_path / "load:0.8" / "runs").iterdir()
    assert "load:0.8 summarises 1 runs" in call("explain", "load:0.8").stdout
    assert "ok" in call("doctor", f"load:0.8/runs/{run.name}").stdout
    call("sweep", scenario, *few, "--vary", "workload.load=0.2", "--out", "load:0.8", "--jobs", 1)  # reads what is there
    call("report", "load:0.8", "--out", "page.html")
    call("run", scenario, *few, "--csv", "--out", "phost:0.8")
    assert "20 of 20 flows finished" in call("explain", "phost:0.8").stdout
    assert flowloom.load("phost:0.8", whole=True).series["pending"].num_rows
    for name in ("a:flows.parquet", "a:log.csv"):
        Path(name).write_bytes(Path(f"phost:0.8/flows{Path(name).suffix}").read_bytes())
        call("import", name, "--out", f"b:{name}")
    assert overlays.read("a:flows.parquet", "other").flows.num_rows == 20


@pytest.mark.parametrize("words", [["run"], ["sweep", "--vary", "workload.load=0.2"], ["compare", "--transports", "ideal"]])
def test_an_address_is_no_directory(scenario, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    told = call(words[0], scenario, *words[1:], "--out", "s3://bucket/o", code=2).stderr
    assert "cannot write to s3:/bucket/o: this is an address, and results go to this machine; give a directory" in told
    assert not Path("s3:").exists()
    Path("s3:").mkdir()
    assert outputs.check_place(Path("s3:/bucket/o")) is None


BAD = os.fsdecode(b"\xff")


def test_a_directory_needs_a_name_in_utf8(tiny, papers, tmp_path, monkeypatch):
    path, made = tiny
    out = tmp_path / f"o{BAD}"
    swept = ["--vary", "workload.flows=10,20", "--jobs", 1]
    simulated = (["run", path], ["run", path, "--csv"], ["sweep", path, *swept], ["compare", path, "--transports", "phost"])
    (tmp_path / "log.csv").write_text("bytes,start,src,dst\n1,0,0,1\n")
    for words in [*simulated, ["import", tmp_path / "log.csv"]]:
        assert "this is not UTF-8 text" in call(*words, "--out", out, code=2).stderr, words
        assert not out.exists()
    out.mkdir()
    with monkeypatch.context() as inside:
        inside.chdir(out)
        for words in simulated:
            assert "this is not UTF-8 text" in call(*words, "--out", "here", code=2).stderr, words
    assert not made  # below, probes for the ledger are run
    for words in (["paper", "run", "tiny/fig1", "--out", out], ["paper", "run", "tiny/fig1", "--runs", out]):
        assert "this is not UTF-8 text" in call(*words, code=2).stderr, words
    assert "this is not UTF-8 text" in call("claims", "--report", "--out", out / "page.html", code=2).stderr
    assert not list(out.iterdir())


def test_a_result_in_a_directory_with_such_a_name_can_be_read_and_not_written(result, tmp_path, monkeypatch):
    out = tmp_path / f"o{BAD}"
    result.save(tmp_path / "o").rename(out)
    monkeypatch.chdir(out)
    for where in (out, "."):
        assert "200 of 200 flows finished" in call("explain", where).stdout
        assert "ok" in call("doctor", where).stdout
        for words in (["plot", where], ["report", where], ["report", where, "--out", tmp_path / "page.html"]):
            assert "this is not UTF-8 text" in call(*words, code=2).stderr, words


def test_directories_above_one_that_gets_nothing_are_removed_too(tmp_path):
    (tmp_path / "mine").mkdir()
    for name in ("results/phost/fig3", "mine/fig3"):
        with pytest.raises(RuntimeError), outputs.claim(tmp_path / name, outputs.RESULT):
            raise RuntimeError
    assert sorted(storage.files_below(tmp_path)) == [] and [path.name for path in tmp_path.iterdir()] == ["mine"]
