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
signal.signal(signal.SIGCHLD, getattr(signal, sys.argv[1]))  # torch hears of a loader process's end by this signal
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


def wait_until(true: Callable[[], bool], run: subprocess.Popen[str], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("dies", "handler"), [("program", "SIG_DFL"), ("loader process", "SIG_DFL"), ("loader process", "SIG_IGN")]
)
def test_a_death_shows_while_others_are_waited_for(tmp_path: Path, dies: str, handler: str) -> None:
    words = run_words(tmp_path, PROGRAM, 2, ["--policy", "bsp", "--set", "evaluate.enabled=false"], [handler])
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


LOADS = """
import os, signal, sys, time
import torch
from torch import nn
import paceline

def reap(number, frame):
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        pass

class Dies(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if index == 40:
            with open("died", "w") as file:
                file.write(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(1)

model = nn.Linear(1, 1)
job = paceline.join(model, Dies(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1), batch_size=4, num_workers=2)
signal.signal(signal.SIGCHLD, {"ignores": signal.SIG_IGN, "default": signal.SIG_DFL, "own handler": reap}[sys.argv[1]])
for inputs in job:
    model(inputs).sum().backward()
    job.step(0.0)
"""


@pytest.mark.parametrize("handler", ["ignores", "default", "own handler"])
def test_a_loader_process_that_dies_in_the_middle_of_a_batch_is_noticed(tmp_path: Path, handler: str) -> None:
    words = run_words(tmp_path, LOADS, 1, ["--set", "evaluate.enabled=false"], [handler])
    ended = subprocess.run(
        [PACELINE, *words], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, timeout=120
    )
    took = time.time() - float((tmp_path / "died").read_text())
    assert ended.returncode == 2, ended.stderr
    assert took < 10, ended.stderr
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("paceline: ")]
    assert "the loader process" in line and "memory was short: give join() fewer num_workers" in line


EVALUATED = """
import os, time
import torch
from torch import nn
from torch.utils.data import TensorDataset
import paceline

def measure():
    with open("new", "w") as file:
        print(os.getpid(), file=file)
    os.rename("new", "evaluator")
    return torch.tensor(1.0)

model = nn.Linear(1, 1)
job = paceline.join(model, TensorDataset(torch.randn(8, 1)), optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                    batch_size=4, epochs=3, evaluate=measure)
for step, [inputs] in enumerate(job):
    while step == 2 and not os.path.exists("go"):
        time.sleep(0.01)
    model(inputs).sum().backward()
    job.step(0.0)
"""


def test_the_death_of_an_evaluators_program_shows_between_two_evaluations(tmp_path: Path) -> None:
    words = run_words(tmp_path, EVALUATED, 1, [], [])
    said = tmp_path / "said"
    with (
        said.open("w") as log,
        subprocess.Popen([PACELINE, *words], cwd=tmp_path, env=environment(), stderr=log, text=True) as run,
    ):
        try:
            wait_until(
                (tmp_path / "evaluator").exists, run, 200
            )  # an evaluator gets what workers leave of the processors
            time.sleep(2)  # the evaluation is over
            os.kill(int((tmp_path / "evaluator").read_text()), signal.SIGKILL)
            line = "the program ended (killed by signal 9 (Killed))); it is started again"
            wait_until(lambda: line in said.read_text(), run)
            (tmp_path / "go").write_text("")
            assert run.wait(120) == 0, said.read_text()
        finally:
            run.kill()
    assert said.read_text().count("evaluator was lost") == 1
