"""The script for Slurm by bash, with stand-ins for `srun` and `scontrol`, and no job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_member import PACKAGE

SCRIPT = PACKAGE.parent / "examples" / "schedulers" / "slurm.sh"

# A stand-in that ends at SIGUSR1, as a run does that stops with a checkpoint, with the status in SRUN_STATUS.
SRUN = """#!{python}
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
open("srun-pid.new", "w").write(str(os.getpid()))
os.rename("srun-pid.new", "srun-pid")
signal.sigwait([signal.SIGUSR1])
sys.exit(int(os.environ["SRUN_STATUS"]))
"""
# The script looks only after the step has ended, as it may when a signal comes at that moment.
LATE_LOOK = """
kill() {
  while [ "$1" = -0 ] && builtin kill -0 "$2" 2>/dev/null; do sleep 0.05; done
  builtin kill "$@"
}
"""
SCONTROL = '#!/bin/sh\necho "$@" >> asked-of-slurm\n'


class Job:
    def __init__(self, folder: Path, status: int, before: str = "") -> None:
        self._folder = folder
        programs = folder / "bin"
        programs.mkdir()
        for name, text in (("srun", SRUN.format(python=sys.executable)), ("scontrol", SCONTROL)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        (folder / "before.sh").write_text(before)
        more = {"SLURM_JOB_ID": "7", "SRUN_STATUS": str(status), "BASH_ENV": str(folder / "before.sh")}
        more["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.script = subprocess.Popen(
            ["bash", str(SCRIPT)], cwd=folder, env={**os.environ, **more}, start_new_session=True
        )
        while not (folder / "srun-pid").exists():
            assert self.script.poll() is None
            time.sleep(0.02)
        self.srun = int((folder / "srun-pid").read_text())

    def asked_of_slurm(self) -> str:
        asked = self._folder / "asked-of-slurm"
        return asked.read_text() if asked.exists() else ""

    def kill(self) -> None:
        if self.script.poll() is None:
            os.killpg(self.script.pid, signal.SIGKILL)
            self.script.wait()


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    made = Job(tmp_path, *request.param)
    yield made
    made.kill()


STOPPED = 128 + signal.SIGUSR1
OF_ANOTHER_HOST = 75


@pytest.mark.parametrize("job", [[STOPPED], [OF_ANOTHER_HOST]], indirect=True)
def test_a_run_that_stopped_is_queued_again(job: Job) -> None:
    job.script.send_signal(signal.SIGUSR1)
    assert job.script.wait(60) in (STOPPED, OF_ANOTHER_HOST)
    assert job.asked_of_slurm() == "requeue 7\n"


@pytest.mark.parametrize("job", [[0], [2]], indirect=True)
def test_a_run_that_is_done_or_has_failed_is_not_queued_again(job: Job) -> None:
    job.script.send_signal(signal.SIGUSR1)
    assert job.script.wait(60) in (0, 2)
    assert job.asked_of_slurm() == ""


@pytest.mark.parametrize("job", [[0, LATE_LOOK]], indirect=True)
def test_a_run_that_ends_as_a_signal_comes_is_not_queued_again(job: Job) -> None:
    job.script.send_signal(signal.SIGUSR1)
    assert job.script.wait(60) == 0
    assert job.asked_of_slurm() == ""
