"""A process that dies while its worker waits for others: the job hears of it, though they end their step much later."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from chaos_hosts import live_workers
from live_job import PACELINE, environment, needs_paceline, only_run, replay, run_words

pytestmark = needs_paceline

PROGRAM = """
import multiprocessing, os, signal, sys, time
import torch
from torch import nn
from torch.utils.data import TensorDataset
import paceline

model = nn.Linear(1, 1)
job = paceline.join(model, TensorDataset(torch.randn(64, 1)), optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                    batch_size=4, num_workers=1)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch hears of a loader process's end by this signal
for step, [inputs] in enumerate(job):
    model(inputs).sum().backward()
    if step == 2 and job.name == "w0":
        [loader] = multiprocessing.active_children()
        with open("new", "w") as file:
            print(os.getpid(), loader.pid, file=file)
        os.rename("new", "pids")
    while step == 2 and job.name == "w1" and not os.path.exists("go"):
        time.sleep(0.01)
    job.step(0.0)
"""


def wait_until(true: Callable[[], bool], run: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("dies", ["program", "loader process"])
def test_a_death_shows_while_others_are_waited_for(tmp_path: Path, dies: str) -> None:
    words = run_words(tmp_path, PROGRAM, 2, ["--policy", "bsp", "--set", "evaluate.enabled=false"], [])
    with subprocess.Popen(
        [PACELINE, *words], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    ) as run:
        try:
            wait_until((tmp_path / "pids").exists, run)
            time.sleep(1)  # w0 most likely has ended its step, and any other moment is a good one too
            program, loader = map(int, (tmp_path / "pids").read_text().split())
            os.kill(program if dies == "program" else loader, signal.SIGKILL)
            wait_until(lambda: live_workers(only_run(tmp_path)) == {"w1"}, run)
            (tmp_path / "go").write_text("")
            _, said = run.communicate(timeout=120)
        finally:
            run.kill()
    assert run.returncode == 0, said
    assert ("killed by signal 9" if dies == "program" else "loader process") in said
    replay(tmp_path, only_run(tmp_path))
