"""The files for schedulers, as far as one machine can run them: machines are taken away, and the run goes on."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_member import PACKAGE
from live_job import PACELINE, environment, needs_paceline, paceline
from paused_program import PROGRAM, attempts, expect_whole_run

pytestmark = needs_paceline

FILES = PACKAGE.parent / "examples" / "schedulers"
EPOCHS = 30
WAIT_S = 900  # on a machine with much else to do

JOB = """
name = "small"
[network]
listen = "127.0.0.1:{port}"
certs = "certs/small"
[checkpoint]
every_epochs = 0.5
[cluster]
shared_folder = {shared}
[program]
run = "train.py"
args = {args}
python = "{python}"
[[device]]
count = 2
"""

# A stand-in that starts both tasks on this machine. As with the real srun, SIGTERM kills them, and SIGUSR1 is passed on.
SRUN = """#!{python}
import os, signal, subprocess, sys
command = [word for word in sys.argv[1:]]
while command[0].startswith("--"):
    command.pop(0)
tasks = []
signal.signal(signal.SIGTERM, lambda *_: [task.kill() for task in tasks])
signal.signal(signal.SIGUSR1, lambda *_: [task.send_signal(signal.SIGUSR1) for task in tasks])
for rank in range(2):
    more = {{"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost",
            "MASTER_ADDR": "127.0.0.1"}}
    tasks.append(subprocess.Popen(command, env={{**os.environ, **more}}))
ends = [task.wait() for task in tasks]
sys.exit(max(128 - end if end < 0 else end for end in ends))
"""
SCONTROL = '#!/bin/sh\necho "$@" >> asked-of-slurm\n'
OWN_PACELINE = '#!/bin/sh\nexec "{paceline}" "$@"\n'


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def prepare(folder: Path, args: list[str], port: int, shared: bool, certs: Path | None = None) -> None:
    """The folder that a person gives to the scheduler."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(PROGRAM)
    said = {"port": port, "shared": str(shared).lower(), "args": json.dumps(args), "python": sys.executable}
    (folder / "job.toml").write_text(JOB.format(**said))
    if certs is None:
        assert paceline(folder, "certs", "certs", "--job", "small").returncode == 0
    else:
        shutil.copytree(certs, folder / "certs")


def with_programs(folder: Path) -> dict[str, str]:
    """The environment in which the programs of this folder are found first."""
    folder.mkdir(exist_ok=True)
    write_program(folder / "paceline", OWN_PACELINE.format(paceline=PACELINE))
    return {**environment(), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


class Machines:
    """Processes in groups of their own, which end with the test."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str], folder: Path, programs: dict[str, str]) -> subprocess.Popen[bytes]:
        self._started.append(subprocess.Popen(command, cwd=folder, env=programs, start_new_session=True))
        return self._started[-1]

    def kill_all(self) -> None:
        for one in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()


@pytest.fixture
def machines() -> Iterator[Machines]:
    made = Machines()
    yield made
    made.kill_all()


def wait_until(true: Callable[[], bool], machines: list[subprocess.Popen[bytes]]) -> None:
    for _ in range(10 * WAIT_S):
        if true():
            return
        assert all(machine.poll() is None for machine in machines), "a machine ended by itself"
        time.sleep(0.1)
    pytest.fail(f"it did not come true within {WAIT_S} s")


def has_checkpoint(runs: Path) -> bool:
    return any(re.fullmatch(r"v\d{12}", path.name) for path in runs.glob("*/checkpoints/*"))


def only_journal(runs: Path) -> Path:
    """The folder of the run. The other hosts keep folders of their own beside it."""
    [journal] = runs.glob("*/journal.sqlite")
    return journal.parent


def test_slurm_takes_the_nodes_and_starts_the_job_again(tmp_path: Path, machines: Machines) -> None:
    go = tmp_path / "go"
    prepare(tmp_path, [str(EPOCHS), str(go), "blind"], free_port(), shared=True)
    programs = {**with_programs(tmp_path / "bin"), "SLURM_JOB_ID": "7"}
    write_program(tmp_path / "bin" / "srun", SRUN.format(python=sys.executable))
    write_program(tmp_path / "bin" / "scontrol", SCONTROL)

    def start() -> subprocess.Popen[bytes]:
        return machines.start(["bash", str(FILES / "slurm.sh")], tmp_path, programs)

    first = start()
    wait_until(lambda: has_checkpoint(tmp_path / "runs"), [first])
    first.send_signal(signal.SIGUSR1)
    assert first.wait(WAIT_S) == 128 + signal.SIGUSR1
    assert (tmp_path / "asked-of-slurm").read_text() == "requeue 7\n"
    go.touch()
    assert start().wait(WAIT_S) == 0
    assert (tmp_path / "asked-of-slurm").read_text() == "requeue 7\n"
    expect_whole_run(tmp_path, only_journal(tmp_path / "runs"), EPOCHS)
    assert attempts(tmp_path / "runs") == 2


TASK = "sky-managed-2026_small_1-0"  # one id on all machines


def run_section() -> str:
    text = (FILES / "skypilot.yaml").read_text()
    return textwrap.dedent(text.split("\nrun: |\n")[1])


def test_spot_machines_are_taken_away_and_others_come(tmp_path: Path, machines: Machines) -> None:
    go, kept, port = tmp_path / "go", tmp_path / "kept", free_port()
    programs = with_programs(tmp_path / "bin")
    kept.mkdir()

    def start(user: str) -> list[subprocess.Popen[bytes]]:
        """New machines with another home folder: they have only the files that a person gave to the scheduler."""
        begun = []
        for rank in range(2):
            folder = tmp_path / f"{user}{rank}"
            shutil.rmtree(tmp_path / f"job{rank}", ignore_errors=True)
            certs = None if not (tmp_path / "certs").exists() else tmp_path / "certs"
            prepare(folder, [str(EPOCHS), str(go), "blind", "stand-still"], port, shared=False, certs=certs)
            if certs is None:
                shutil.copytree(folder / "certs", tmp_path / "certs")
            shutil.copy(FILES / "keep_runs.py", folder)
            more = {"SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NUM_NODES": "2", "KEPT": str(kept)}
            more["FOLDER"] = str(tmp_path / f"job{rank}")
            more["SKYPILOT_TASK_ID"] = TASK
            more["SKYPILOT_NODE_IPS"] = "127.0.0.1\n127.0.0.1"
            begun.append(machines.start(["bash", "-c", run_section()], folder, {**programs, **more}))
        return begun

    first = start("ubuntu")
    wait_until(lambda: any(kept.glob("*/*/complete")), first)
    machines.kill_all()
    go.touch()
    assert [machine.wait(WAIT_S) for machine in start("gcpuser")] == [0, 0]
    runs = tmp_path / "job0" / TASK / "runs"
    expect_whole_run(tmp_path, only_journal(runs), EPOCHS)
    assert attempts(runs) == 2
    assert [path.parent.name for path in kept.glob("*/*-ended/complete")]
