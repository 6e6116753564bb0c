"""Keeps copies of the newest run in a folder that outlives this machine, such as a bucket that is mounted here.

keep_runs.py restore RUNS KEPT    # before the job: the newest copy, if RUNS lacks that run
keep_runs.py keep RUNS KEPT       # beside the job, until it is killed: a copy with each new checkpoint
keep_runs.py last RUNS KEPT       # after the job: the last copy

KEPT is of one job alone: a job that goes on with the newest copy there would otherwise take another job's.
A bucket has no locks and no writes within a file, so a run cannot be there itself. Each copy is a folder of its own;
its file `complete` is written last. A checkpoint is copied before the journal, which then has all that led to it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

EVERY_S = 15.0  # between two looks at the run
TRIES = 20  # of the last copy, after which this machine may be gone
COPIES = 2  # the newest ones of a run, which are kept
OWN = ("journal.sqlite", "lock", "coordinator")  # not copied as files


def by_time(folder: Path) -> tuple[str, str]:
    """Sorts folders by the time in their names, before which a name has its job's."""
    times = re.findall(r"\d{8}T\d{6}\.\d{3}Z", folder.name)
    return (times[-1] if times else "", folder.name)


def newest_run(runs: Path) -> Path | None:
    found = [path.parent for path in runs.glob("*/journal.sqlite")]
    return max(found, key=by_time, default=None)


def newest_checkpoint(run: Path) -> Path | None:
    whole = re.compile(r"v\d{12}")  # others are unfinished or set aside
    found = sorted(path for path in run.glob("checkpoints/*") if whole.fullmatch(path.name))
    return found[-1] if found else None


def copies(kept: Path, of: str = "*") -> list[Path]:
    """The whole copies, the newest one last."""
    return sorted((path.parent for path in kept.glob(f"{of}/complete")), key=by_time)


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # this file system has no links
        shutil.copy(source, target)


@contextlib.contextmanager
def held(checkpoint: Path, run: Path) -> Iterator[Path]:
    """Further names for its files, which stay until the end, even if the run removes the checkpoint meanwhile."""
    folder = run.parent / f".{run.name}-held"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield Path(shutil.copytree(checkpoint, folder, copy_function=link))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(run: Path, kept: Path) -> None:
    """Copies the run, if it has a checkpoint that no copy has, or has ended since."""
    checkpoint = newest_checkpoint(run)
    if checkpoint is None:
        return
    ended = "-ended" if (run / "summary.json").exists() else ""
    copy = kept / f"{run.name}-{checkpoint.name}{ended}"
    if (copy / "complete").exists():
        return
    for other in kept.glob(f"{run.name}-v*"):
        if not (other / "complete").exists():  # it was cut short
            shutil.rmtree(other)
    to = copy / run.name
    with held(checkpoint, run) as files:
        shutil.copytree(
            files,
            to / "checkpoints" / checkpoint.name,
            copy_function=shutil.copy,
        )
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.sqlite"
        source, target = (
            sqlite3.connect(run / "journal.sqlite"),
            sqlite3.connect(journal),
        )
        source.backup(target)
        source.close()
        target.close()
        shutil.copy(journal, to / "journal.sqlite")
    for file in run.iterdir():
        if file.is_file() and not file.name.startswith(OWN):
            shutil.copy(file, to / file.name)
    (copy / "complete").write_text("")
    for old in copies(kept, f"{run.name}-v*")[:-COPIES]:
        shutil.rmtree(old)


def restore(runs: Path, kept: Path) -> None:
    """Older runs may be in `runs`: a person's own ones, which came with the program."""
    found = copies(kept)
    if not found:
        return
    for run in (path for path in found[-1].iterdir() if path.is_dir()):
        if (runs / run.name / "journal.sqlite").exists():
            return
        print(f"keep_runs: going on from {found[-1]}", file=sys.stderr)
        shutil.copytree(run, runs / run.name)
        (runs / run.name).chmod(0o700)
        (runs / run.name / "logs").mkdir()


def keep_newest(runs: Path, kept: Path) -> bool:
    """False if no copy could be made."""
    try:
        run = newest_run(runs)
        if run is not None:
            keep(run, kept)
    except (OSError, sqlite3.Error, shutil.Error) as error:
        # A checkpoint may be removed while it is copied. The next look finds a newer one.
        print(f"keep_runs: no copy this time: {error}", file=sys.stderr)
        return False
    return True


def keep_last(runs: Path, kept: Path) -> bool:
    """False if the bucket takes no copy for long."""
    for again in reversed(range(TRIES)):
        if keep_newest(runs, kept):
            return True
        if again:
            time.sleep(EVERY_S)
    return False


def main() -> None:
    what, runs, kept = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if what == "restore":
        restore(runs, kept)
    if what == "last" and not keep_last(runs, kept):
        sys.exit(f"keep_runs: the end of the run is not in {kept}: the last copy failed {TRIES} times")
    while what == "keep":
        keep_newest(runs, kept)
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
