"""A launcher that starts one command many times, like srun and mpirun, starts one job."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live_job import PACELINE, environment, needs_paceline, only_run, replay
from scripts import HEAD, LOOP

pytestmark = needs_paceline

PROGRAM = (
    HEAD
    + "import os\nmodel = Net()\njob = paceline.join(model, Points(96), batch_size=8, epochs=2)\n"
    + LOOP
    + """
if job.role == "worker":
    left = [name for name in os.environ if name.startswith(("SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK"))]
    with open(job.name, "w") as file:
        print(os.environ.get("TASK", ""), job.devices, left, file=file)
"""
)


def of_srun(rank: int, count: int, nodes: int = 1) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "77",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": str(count),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_NTASKS": str(count),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_STEP_NODELIST": "node1",
        "TASK": str(rank),
    }


def start(folder: Path, words: list[str], task: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        cwd=folder,
        env={**environment(), **task},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(task: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = task.communicate(timeout=600)
    return task.returncode, errors


def written(folder: Path, count: int) -> list[str]:
    return [(folder / f"w{rank}").read_text().strip() for rank in range(count)]


@pytest.mark.parametrize("by_hand", [True, False])
def test_tasks_of_srun_are_the_workers_of_one_job(tmp_path: Path, by_hand: bool) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    run = [PACELINE, "run", "train.py", "--python", sys.executable]
    words = [sys.executable, "train.py"] if by_hand else run
    # The first task comes last: the others wait for it.
    tasks = [start(tmp_path, words, of_srun(rank, 3)) for rank in (2, 1, 0)]
    others, first = [ended(task) for task in tasks[:2]], ended(tasks[2])
    assert first[0] == 0, first[1]
    assert "srun started 3 tasks; they become the 3 workers of one job" in first[1]
    assert others == [(0, "")] * 2
    replay(tmp_path, only_run(tmp_path))
    # Each worker is in its own task, and its program sees no task of several.
    assert written(tmp_path, 3) == [f"{rank} 3 []" for rank in range(3)]
    assert not list((tmp_path / "runs").glob(".tasks*"))


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
def test_tasks_of_mpirun_are_the_workers_of_one_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "train.py"]
    status, errors = ended(start(tmp_path, words, {}))
    assert status == 0, errors
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert written(tmp_path, 2) == ["2 []"] * 2


def test_tasks_on_two_hosts_are_the_hosts_of_one_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    node = {"SLURM_STEP_NODELIST": "localhost,node2", "SLURM_LOCALID": "0"}
    tasks = [start(tmp_path, [sys.executable, "train.py"], {**of_srun(rank, 2, 2), **node}) for rank in (1, 0)]
    (second, first) = [ended(task) for task in tasks]
    assert first[0] == 0, first[1]
    assert second[0] == 0, second[1]
    assert "srun started 2 tasks on as many hosts; they become the hosts of one job" in first[1]
    runs = {folder.name for folder in (tmp_path / "runs").iterdir()}
    assert len(runs) == 2 and "train-host1" in runs, runs
    [run] = runs - {"train-host1"}
    replay(tmp_path, tmp_path / "runs" / run)
    assert written(tmp_path, 2) == ["0 2 []", "1 2 []"]


def test_a_task_with_other_words_says_how_to_train_several_jobs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    words = [PACELINE, "run", "train.py", "--python", sys.executable, "--quiet", "--"]
    first = start(tmp_path, [*words, "--seed=0"], of_srun(0, 2))
    try:
        status, errors = ended(start(tmp_path, [*words, "--seed=1"], of_srun(1, 2)))
        assert status == 2 and len(errors.splitlines()) == 1
        assert "other words than the first one" in errors and "`env -u SLURM_STEP_NUM_TASKS ...`" in errors
    finally:
        first.send_signal(signal.SIGINT)
        assert first.wait(600) in (128 + signal.SIGINT, -signal.SIGINT)


@pytest.mark.parametrize(
    "more, nodes, said",
    [
        (["--devices", "2"], 1, "leave --devices out"),
        (["--virtual"], 1, "virtual time is one process"),
        ([], 2, "start one a host"),
        ([], 4, "set MASTER_ADDR to its name"),
    ],
)
def test_tasks_that_are_no_job_of_one_host_get_one_line(
    tmp_path: Path, more: list[str], nodes: int, said: str
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    words = [PACELINE, "run", "train.py", "--python", sys.executable, *more]
    task = {**of_srun(0, 4, nodes), "SLURM_STEP_NODELIST": "", "MASTER_ADDR": ""}
    status, errors = ended(start(tmp_path, words, task))
    assert status == 2 and said in errors and len(errors.splitlines()) == 1
    assert "srun started this command 4 times" in errors and not os.path.exists(tmp_path / "runs")
