"""A launcher that starts one command many times, like srun and mpirun, starts one job."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_job import PACELINE, environment, needs_paceline, only_run, paceline, replay
from paused_program import PROGRAM as PAUSED
from paused_program import commits, expect_whole_run
from scripts import HEAD, LOOP
from test_live_plain import LOOP as KEEPING_LOOP
from test_live_plain import NO_SCHEDULE, POINTS, SGD, expect_plain_weights
from test_live_schedulers import free_port

pytestmark = needs_paceline

EPOCHS = 3
BESIDE = os.path.dirname(sys.executable)

WRITE_TASK = """
import os
if job.role == "worker":
    left = [name for name in os.environ if name.startswith(("SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK"))]
    with open(job.name, "w") as file:
        print(os.environ.get("TASK", ""), job.devices, left, file=file)
"""
PROGRAM = HEAD + "model = Net()\njob = paceline.join(model, Points(96), batch_size=8, epochs=2)\n" + LOOP + WRITE_TASK


def of_srun(rank: int, count: int, nodes: int = 1) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": str(
            os.getpid()
        ),  # the coordinator's port follows from it, and other tests run beside this one
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": str(count),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_NTASKS": str(count),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_STEP_NODELIST": "node1",
        "TASK": str(rank),
    }


def of_two_hosts(rank: int, counts: tuple[int, int], tasks_per_node: str = "") -> dict[str, str]:
    """A task of srun on two hosts, both of which are this machine."""
    host = 0 if rank < counts[0] else 1
    more = {"SLURM_STEP_NODELIST": "localhost,node2", "SLURM_NODEID": str(host)}
    more["SLURM_LOCALID"] = str(rank - host * counts[0])
    more["SLURM_TASKS_PER_NODE"] = tasks_per_node or f"{counts[0]},{counts[1]}"
    return {**of_srun(rank, sum(counts), 2), **more}


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


def expect_quiet(ends: list[tuple[int, str]]) -> None:
    """On a busy machine a task says that it waits for another one."""
    for status, errors in ends:
        assert status == 0 and all(line.startswith("waiting for ") for line in errors.splitlines()), errors


def run_of_first_host(folder: Path) -> Path:
    """The folder of the run. The other host keeps a folder of its own beside it."""
    [journal] = (folder / "runs").glob("*/journal.sqlite")
    return journal.parent


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
    expect_quiet(others)
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


@pytest.mark.parametrize("first", [{"SLURM_STEP_NODELIST": "localhost,node2"}, {"MASTER_ADDR": "::1"}])
def test_tasks_on_two_hosts_are_the_hosts_of_one_job(tmp_path: Path, first: dict[str, str]) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    node = {**first, "SLURM_LOCALID": "0"}
    tasks = [start(tmp_path, [sys.executable, "train.py"], {**of_srun(rank, 2, 2), **node}) for rank in (1, 0)]
    (second, first) = [ended(task) for task in tasks]
    assert first[0] == 0, first[1]
    assert second[0] == 0, second[1]
    assert "srun started 2 tasks on as many hosts; they become the hosts of one job" in first[1]
    replay(tmp_path, run_of_first_host(tmp_path))
    assert written(tmp_path, 2) == ["0 2 []", "1 2 []"]


@pytest.mark.parametrize("counts, said", [((2, 2), "2(x2)"), ((2, 1), "2,1")])
def test_several_tasks_on_two_hosts_are_the_workers_of_one_job(
    tmp_path: Path, counts: tuple[int, int], said: str
) -> None:
    task = "SAMPLES, BATCH = 100, 32\n" + POINTS + SGD + NO_SCHEDULE
    (tmp_path / "train.py").write_text(task + KEEPING_LOOP + WRITE_TASK)
    ranks = [*reversed(range(sum(counts)))]
    tasks = [start(tmp_path, [sys.executable, "train.py"], of_two_hosts(rank, counts, said)) for rank in ranks]
    ends = dict(zip(ranks, map(ended, tasks), strict=True))
    assert {rank: end[0] for rank, end in ends.items()} == dict.fromkeys(ranks, 0), ends
    count = sum(counts)
    assert f"srun started {count} tasks on 2 hosts; they become the {count} workers of one job" in ends[0][1]
    expect_quiet([ends[1]])
    assert written(tmp_path, count) == [f"{rank} {count} []" for rank in range(count)]
    run = run_of_first_host(tmp_path)
    assert not list((tmp_path / "runs").glob(".*"))
    replay(tmp_path, run)
    expect_plain_weights(tmp_path, run, task)


@contextmanager
def two_hosts(
    folders: tuple[Path, Path], counts: tuple[int, int], more: Sequence[str]
) -> Iterator[list[subprocess.Popen[str]]]:
    """The tasks of a job of EPOCHS epochs that pauses until `go` is there. It has committed more than a checkpoint."""
    tasks = []
    try:
        for rank in range(sum(counts)):
            folder = folders[rank >= counts[0]]
            folder.mkdir(exist_ok=True)
            (folder / "train.py").write_text(PAUSED)
            words = [PACELINE, "run", "train.py", "--python", sys.executable, "--set", "checkpoint.every_epochs=0.25"]
            words += [*more, "--", str(EPOCHS), str(folders[0] / "go"), "blind"]
            tasks.append(start(folder, words, of_two_hosts(rank, counts)))
        deadline = time.monotonic() + 300
        while not list((folders[0] / "runs").glob("*/checkpoints/v*[1-9]")):
            over = [task.communicate()[1] for task in tasks if task.poll() is not None]
            assert not over and time.monotonic() < deadline, over
            time.sleep(0.1)
        yield tasks
    finally:
        for task in tasks:
            task.kill()
            task.wait()


def test_the_others_train_on_without_a_killed_task(tmp_path: Path) -> None:
    with two_hosts((tmp_path, tmp_path), (2, 2), ()) as tasks:
        tasks[3].kill()
        (tmp_path / "go").touch()
        ends = [ended(task) for task in tasks[:3]]
        assert [status for status, _ in ends] == [0, 0, 0], ends
    expect_whole_run(tmp_path, run_of_first_host(tmp_path), EPOCHS)


def test_a_stopped_run_of_two_hosts_goes_on_as_it_says(tmp_path: Path) -> None:
    with two_hosts((tmp_path, tmp_path), (1, 1), ()) as tasks:
        tasks[0].send_signal(signal.SIGINT)
        stopped = [ended(task) for task in tasks]
        run = run_of_first_host(tmp_path)
        assert f"resume with: paceline node --resume {run}" in stopped[0][1], stopped
    (tmp_path / "go").touch()
    words = [PACELINE, "node", "--resume", str(run)]
    ends = [ended(task) for task in [start(tmp_path, words, of_two_hosts(rank, (1, 1))) for rank in range(2)]]
    assert [status for status, _ in ends] == [0, 0], ends
    expect_whole_run(tmp_path, run, EPOCHS)


def test_a_host_is_lost_with_its_first_task(tmp_path: Path) -> None:
    with two_hosts((tmp_path, tmp_path), (2, 2), ["--set", "cluster.host_patience_s=2"]) as tasks:
        tasks[2].kill()
        status, errors = ended(tasks[3])
        assert status == 2 and len(errors.splitlines()) == 1, errors
        assert "on host 1 was lost" in errors or "the host of w3 was given up" in errors, errors
        (tmp_path / "go").touch()
        ends = [ended(task) for task in tasks[:2]]
        assert [status for status, _ in ends] == [0, 0], ends
    expect_whole_run(tmp_path, run_of_first_host(tmp_path), EPOCHS)


@pytest.mark.parametrize("shares", [True, False], ids=["shared-folder", "copies"])
def test_the_tasks_of_the_second_host_go_on_without_the_first_one(tmp_path: Path, shares: bool) -> None:
    more = ["--set", "cluster.host_patience_s=2"]
    folders = (tmp_path, tmp_path) if shares else (tmp_path / "a", tmp_path / "b")
    if shares:
        more += ["--set", "cluster.shared_folder=true"]
    else:
        assert paceline(tmp_path, "certs", "certs", "--job", "train").returncode == 0
        more += ["--set", "cluster.copies=2", "--set", f"network.certs={tmp_path / 'certs' / 'train'}"]
    with two_hosts(folders, (2, 2), more) as tasks:
        tasks[0].kill()
        status, errors = ended(tasks[1])
        assert status == 2 and ("on host 0 was lost" in errors or "the host of w1 was given up" in errors), errors
        (folders[0] / "go").touch()
        ends = [ended(task) for task in tasks[2:]]
        assert [status for status, _ in ends] == [0, 0], ends
    expect_whole_run(folders[1], run_of_first_host(folders[1]), EPOCHS)


def test_the_tasks_of_one_host_end_with_the_first_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PAUSED)
    words = [PACELINE, "run", "train.py", "--python", sys.executable, "--", "2", str(tmp_path / "go"), "blind"]
    tasks = [start(tmp_path, words, of_srun(rank, 2)) for rank in range(2)]
    try:
        while commits(tmp_path / "runs") == 0:
            assert all(task.poll() is None for task in tasks)
            time.sleep(0.1)
        tasks[0].kill()
        status, errors = ended(tasks[1])
        assert status == 2 and "the first of the 2 tasks of srun was lost, and the run with it" in errors, errors
    finally:
        for task in tasks:
            task.kill()
            task.wait()


AFTER_JOB = """
import time
if job.role == "worker":
    if job.name == "w0" and "fail" in sys.argv:
        sys.exit("could not save")
    if job.name == "w1":
        time.sleep(14)  # longer than a lost first task is waited for
    open(f"saved-{job.name}", "w").close()
"""


@pytest.mark.parametrize("word", ["", "fail"], ids=["well", "its program fails after the job"])
def test_a_program_still_works_after_the_first_task_has_ended(tmp_path: Path, word: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.replace(WRITE_TASK, AFTER_JOB))
    words = [PACELINE, "run", "train.py", "--python", sys.executable, *(["--", word] if word else [])]
    tasks = [start(tmp_path, words, of_srun(rank, 2)) for rank in range(2)]
    first, second = map(ended, tasks)
    assert first[0] == (2 if word else 0), first
    assert (tmp_path / "saved-w1").exists(), second
    expect_quiet([second])


def has_open_mpi_4() -> bool:
    if shutil.which("mpirun") is None:
        return False
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True)
    return "(Open MPI) 4." in said.stdout


@pytest.mark.skipif(not has_open_mpi_4(), reason="there is no mpirun of Open MPI 4")
@pytest.mark.parametrize("said", ["2,1", ""])
def test_tasks_of_mpirun_need_to_be_told_how_many_each_host_has(tmp_path: Path, said: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    # A stand-in for ssh, which starts mpirun's part of each host on this one.
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    agent.chmod(0o755)
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", str(agent)]
    words += ["--host", "127.0.0.2:2,127.0.0.3:1", "--map-by", "slot", "-n", "3", "-x", "MASTER_ADDR=127.0.0.1"]
    words += ["-x", f"PACELINE_TASKS_PER_HOST={said}", "-x", "PYTHONPATH", "-x", "OMP_NUM_THREADS"]
    command = [PACELINE, "run", "train.py", "--python", sys.executable]
    status, errors = ended(start(tmp_path, [*words, *command], {}))
    if said:
        assert status == 0 and "mpirun started 3 tasks on 2 hosts" in errors, errors
        assert written(tmp_path, 3) == ["3 []"] * 3
    else:
        assert status == 2 and "set PACELINE_TASKS_PER_HOST=2,2 (a number for each host)" in errors, errors


@pytest.mark.skipif(shutil.which("torchrun", path=BESIDE) is None, reason="there is no torchrun")
def test_tasks_of_torchrun_on_two_hosts_are_the_workers_of_one_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    words = [f"{BESIDE}/torchrun", "--nnodes=2", "--nproc_per_node=2", "--master_addr=127.0.0.1"]
    words += [f"--master_port={free_port()}", "--no_python"]
    command = [PACELINE, "run", "train.py", "--python", sys.executable]
    hosts = [start(tmp_path, [*words, f"--node_rank={host}", *command], {}) for host in range(2)]
    ends = [ended(host) for host in hosts]
    assert [status for status, _ in ends] == [0, 0], ends
    assert "torchrun started 4 tasks on 2 hosts; they become the 4 workers of one job" in ends[0][1]
    assert written(tmp_path, 4) == ["4 []"] * 4


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
        ([], 2, "set PACELINE_TASKS_PER_HOST=2,2"),
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
