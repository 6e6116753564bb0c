"""The commands of skypilot.yaml on host 0 with a stand-in for `paceline`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from fake_member import PACKAGE

FILES = PACKAGE.parent / "examples" / "schedulers"

# A stand-in that trains nothing. It notes the runs that it finds, and ends when its own has a copy.
STAND_IN = """#!{python}
import json, os, pathlib, sqlite3, sys, time
runs, run = pathlib.Path("runs"), pathlib.Path("runs", os.environ["RUN"])
pathlib.Path("found").write_text(json.dumps(sorted(path.name for path in runs.glob("*"))))
if not run.exists():
    (run / "checkpoints" / "v000000000008").mkdir(parents=True)
    sqlite3.connect(run / "journal.sqlite").execute("CREATE TABLE commits (version INTEGER)")
while not any(pathlib.Path(os.environ["KEPT"]).rglob(run.name + "*/complete")):
    time.sleep(0.05)
sys.exit(int(os.environ["STATUS"]))
"""

# A stand-in for keep_runs.py whose last copy fails.
FAILING_KEEPER = """
import os, pathlib, signal, sys
if sys.argv[1] == "keep":
    copy = pathlib.Path(sys.argv[3], os.environ["RUN"] + "-v000000000008")
    copy.mkdir(parents=True)
    (copy / "complete").touch()
    signal.pause()
sys.exit(sys.argv[1] == "last")
"""
KEEPER = (FILES / "keep_runs.py").read_text()
RUN = "small-20260101T000000.000Z-cgp"


def train_on_a_new_machine(
    tmp_path: Path, task: str, run: str = RUN, status: int = 0, keeper: str = KEEPER
) -> tuple[int, str]:
    """The exit status, and the runs that were there as the job started. Each machine has another home folder."""
    machine, folder, programs = Path(tempfile.mkdtemp(dir=tmp_path)), tmp_path / "job", tmp_path / "bin"
    shutil.rmtree(folder / task, ignore_errors=True)  # a machine may have had other jobs before
    programs.mkdir(exist_ok=True)
    (machine / "keep_runs.py").write_text(keeper)
    (programs / "paceline").write_text(STAND_IN.format(python=sys.executable))
    (programs / "paceline").chmod(0o755)
    more = {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1", "SKYPILOT_NODE_IPS": "127.0.0.1"}
    more |= {
        "SKYPILOT_TASK_ID": task,
        "KEPT": str(tmp_path / "kept"),
        "FOLDER": str(folder),
        "RUN": run,
        "STATUS": str(status),
    }
    more["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    commands = textwrap.dedent((FILES / "skypilot.yaml").read_text().split("\nrun: |\n")[1])
    ended = subprocess.run(
        ["bash", "-c", commands], cwd=machine, env={**os.environ, **more}, timeout=300, check=False
    )
    return ended.returncode, (folder / task / "found").read_text()


def test_a_job_goes_on_with_its_own_run_and_not_with_another_jobs(tmp_path: Path) -> None:
    assert train_on_a_new_machine(tmp_path, "task-1") == (0, "[]")
    assert train_on_a_new_machine(tmp_path, "task-2", "small-20260102T000000.000Z-cgp") == (0, "[]")
    assert train_on_a_new_machine(tmp_path, "task-1") == (0, f'["{RUN}"]')


def test_a_job_without_its_last_copy_has_failed(tmp_path: Path) -> None:
    assert train_on_a_new_machine(tmp_path, "task-1", keeper=FAILING_KEEPER)[0] == 1


@pytest.mark.parametrize("keeper", [KEEPER, FAILING_KEEPER])
def test_a_jobs_own_failure_is_its_status(tmp_path: Path, keeper: str) -> None:
    assert train_on_a_new_machine(tmp_path, "task-1", status=2, keeper=keeper)[0] == 2
