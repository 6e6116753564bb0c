"""Copies of a run in a bucket, as examples/schedulers/keep_runs.py makes them."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from fake_member import PACKAGE


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("keep_runs", PACKAGE.parent / "examples/schedulers/keep_runs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


keep_runs = loaded()


def add_run(runs: Path, name: str) -> Path:
    """The folder of a run that trains: its database is open."""
    folder = runs / name
    folder.mkdir(parents=True)
    for file in ("job.toml", "mark", "lock"):
        (folder / file).write_text(file)
    with sqlite3.connect(folder / "journal.sqlite") as journal:
        journal.execute("CREATE TABLE commits (version INTEGER)")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return add_run(tmp_path / "runs", "small-20260101T000000.000Z-cgp")


def add_checkpoint(run: Path, version: int, name: str = "v{:012}") -> None:
    folder = run / "checkpoints" / name.format(version)
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(str(version))
    with sqlite3.connect(run / "journal.sqlite") as journal:
        journal.execute("INSERT INTO commits VALUES (?)", (version,))


def restored(tmp_path: Path) -> Path:
    keep_runs.restore(tmp_path / "new", tmp_path / "kept")
    [run] = (tmp_path / "new").iterdir()
    return run


def test_the_newest_checkpoint_and_its_journal_come_back(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    keep_runs.keep(run, kept)
    assert not kept.exists()  # there is nothing to go on from yet
    for version in (8, 16, 24):
        add_checkpoint(run, version)
        keep_runs.keep(run, kept)
    add_checkpoint(run, 32, "v{:012}.partial-1")
    keep_runs.keep(run, kept)
    assert len(list(kept.iterdir())) == keep_runs.COPIES
    new = restored(tmp_path)
    assert [path.name for path in (new / "checkpoints").iterdir()] == ["v000000000024"]
    with sqlite3.connect(new / "journal.sqlite") as journal:
        assert journal.execute("SELECT max(version) FROM commits").fetchone() == (24,)
    assert (new / "mark").read_text() == "mark" and not (new / "lock").exists() and (new / "logs").is_dir()


def kept_with_one_cut_short(run: Path, tmp_path: Path) -> Path:
    """Copies of versions 8 and 16, of which the second one is not whole."""
    kept = tmp_path / "kept"
    for version in (8, 16):
        add_checkpoint(run, version)
        keep_runs.keep(run, kept)
    (kept / "small-20260101T000000.000Z-cgp-v000000000016" / "complete").unlink()
    return kept


def test_a_copy_that_was_cut_short_does_not_count(run: Path, tmp_path: Path) -> None:
    kept_with_one_cut_short(run, tmp_path)
    assert [path.name for path in (restored(tmp_path) / "checkpoints").iterdir()] == ["v000000000008"]


def test_the_next_copy_removes_one_that_was_cut_short(run: Path, tmp_path: Path) -> None:
    kept = kept_with_one_cut_short(run, tmp_path)
    add_checkpoint(run, 24)
    keep_runs.keep(run, kept)
    assert sorted(path.name[-2:] for path in kept.iterdir()) == ["08", "24"]


def test_a_checkpoint_may_be_removed_while_it_is_copied(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_checkpoint(run, 8)
    copy = shutil.copy

    def copy_slowly(source: str, target: str) -> str:
        shutil.rmtree(run / "checkpoints" / "v000000000008", ignore_errors=True)
        return str(copy(source, target))

    monkeypatch.setattr(shutil, "copy", copy_slowly)
    keep_runs.keep(run, tmp_path / "kept")
    new = restored(tmp_path)
    assert (new / "checkpoints" / "v000000000008" / "state.json").read_text() == "8"
    assert [path.name for path in run.parent.iterdir()] == [run.name]


def test_a_run_that_ended_is_copied_once_more(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    add_checkpoint(run, 8)
    keep_runs.keep(run, kept)
    (run / "summary.json").touch()
    keep_runs.keep(run, kept)
    assert [path.name for path in keep_runs.copies(kept)] == [
        "small-20260101T000000.000Z-cgp-v000000000008",
        "small-20260101T000000.000Z-cgp-v000000000008-ended",
    ]


def test_a_run_that_is_here_is_not_replaced(run: Path, tmp_path: Path) -> None:
    add_checkpoint(run, 8)
    keep_runs.keep(run, tmp_path / "kept")
    (run / "mark").write_text("newer")
    keep_runs.restore(tmp_path / "runs", tmp_path / "kept")
    assert (run / "mark").read_text() == "newer"


def test_a_newer_run_counts_although_its_name_comes_first(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    for version in (8, 16):
        add_checkpoint(run, version)
        keep_runs.keep(run, kept)
    newer = add_run(run.parent, "alpha-20260102T000000.000Z-bsp")
    assert keep_runs.newest_run(run.parent) == newer
    for version in (8, 16, 24):
        add_checkpoint(newer, version)
        keep_runs.keep(newer, kept)
    assert len(keep_runs.copies(kept, f"{newer.name}-*")) == keep_runs.COPIES
    assert len(keep_runs.copies(kept, f"{run.name}-*")) == keep_runs.COPIES
    assert restored(tmp_path).name == newer.name


def test_a_copy_comes_back_beside_a_run_that_came_with_the_program(run: Path, tmp_path: Path) -> None:
    add_checkpoint(run, 8)
    keep_runs.keep(run, tmp_path / "kept")
    add_run(tmp_path / "new", "small-20251231T000000.000Z-cgp")
    keep_runs.restore(tmp_path / "new", tmp_path / "kept")
    assert keep_runs.newest_run(tmp_path / "new") == tmp_path / "new" / run.name


def test_the_last_copy_replaces_one_that_was_being_made(run: Path, tmp_path: Path) -> None:
    kept = kept_with_one_cut_short(run, tmp_path)
    (kept / "small-20260101T000000.000Z-cgp-v000000000016" / "half").touch()
    assert keep_runs.keep_last(run.parent, kept)
    assert [path.name[-2:] for path in keep_runs.copies(kept)] == ["08", "16"]
    assert not [*kept.rglob("half")]


def test_the_commands_make_copies_beside_a_job_and_after_it(run: Path, tmp_path: Path) -> None:
    def command(what: str) -> list[str]:
        return [sys.executable, keep_runs.__file__, what, str(run.parent), str(tmp_path / "kept")]

    add_checkpoint(run, 8)
    keeper = subprocess.Popen(command("keep"))
    while not keep_runs.copies(tmp_path / "kept"):
        assert keeper.poll() is None
    keeper.terminate()
    keeper.wait(120)
    add_checkpoint(run, 16)
    subprocess.run(command("last"), check=True, timeout=120)
    assert len(keep_runs.copies(tmp_path / "kept")) == 2


class FullBucket:
    """A stand-in for `shutil.copy` that fails a number of times."""

    def __init__(self, failures: int) -> None:
        self._left = failures
        self._copy = shutil.copy

    def __call__(self, source: str, target: str) -> str:
        if self._left > 0:
            self._left -= 1
            raise OSError("the bucket does not answer")
        return str(self._copy(source, target))


@pytest.mark.parametrize("failures", [0, 1, keep_runs.TRIES - 1, keep_runs.TRIES])
def test_the_last_copy_is_tried_again(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    add_checkpoint(run, 8)
    monkeypatch.setattr(keep_runs, "EVERY_S", 0.0)
    monkeypatch.setattr(keep_runs, "held", lambda checkpoint, _: contextlib.nullcontext(checkpoint))
    monkeypatch.setattr(shutil, "copy", FullBucket(failures))
    made = failures < keep_runs.TRIES
    assert keep_runs.keep_last(run.parent, tmp_path / "kept") == made
    assert len(keep_runs.copies(tmp_path / "kept")) == int(made)


def test_the_command_fails_without_the_last_copy(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_runs, "keep_last", lambda *_: False)
    monkeypatch.setattr(sys, "argv", ["keep_runs.py", "last", str(run.parent), str(tmp_path / "kept")])
    with pytest.raises(SystemExit, match="the end of the run is not in .*kept: the last copy failed 20 times"):
        keep_runs.main()
