"""SIGUSR1, with which clusters warn every process of a job, comes to programs with handlers of their own, and without."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from live_job import PACELINE, environment, needs_paceline, only_run, run_words

pytestmark = needs_paceline

PROGRAM = """
import os, signal, sys, time
import torch
import paceline

if sys.argv[1] == "a handler":
    signal.signal(signal.SIGUSR1, lambda *_: open(f"heard-{os.getpid()}", "w").close())
model = torch.nn.Linear(3, 1)
data = torch.utils.data.TensorDataset(torch.ones(96, 3))
job = paceline.join(model, data, optimizer=torch.optim.SGD(model.parameters(), 0.01), epochs=2, batch_size=8)
for step, (x,) in enumerate(job):
    open("stepped", "w").close()
    while not os.path.exists("go-on" if step else "go"):
        time.sleep(0.05)
    loss = model(x).square().mean()
    loss.backward()
    job.step(loss)
"""


def family(first: int) -> list[int]:
    """The process and all that it started, directly or not."""
    found = [first]
    for pid in found:
        try:
            found.extend(int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except OSError:
            continue  # the process has just ended
    return found


@pytest.mark.parametrize("handler", ["a handler", "none"])
def test_a_program_goes_on_after_a_warning(tmp_path: Path, handler: str) -> None:
    words = [PACELINE, *run_words(tmp_path, PROGRAM, 2, ["--set", "checkpoint.every_epochs=100"], [handler])]
    log = tmp_path / "errors.txt"
    until = time.monotonic() + 300
    with (
        open(log, "w") as errors,
        subprocess.Popen(words, cwd=tmp_path, env=environment(), stderr=errors, stdout=errors) as job,
    ):
        while job.poll() is None and not (tmp_path / "stepped").exists() and time.monotonic() < until:
            time.sleep(0.05)
        for pid in family(job.pid):
            os.kill(pid, signal.SIGUSR1)
        (tmp_path / "go").touch()
        while job.poll() is None and "SIGUSR1: " not in log.read_text() and time.monotonic() < until:
            time.sleep(0.05)
        (tmp_path / "go-on").touch()
    said = log.read_text()
    assert job.returncode == 0, said
    assert "SIGUSR1: the checkpoint of version " in said and "was lost" not in said
    assert len(list((only_run(tmp_path) / "checkpoints").glob("v*"))) == 2
    assert bool(list(tmp_path.glob("heard-*"))) == (handler == "a handler")
