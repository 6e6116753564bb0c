"""Whole jobs with the real executable. Without it these tests are skipped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from live_job import environment, exported, needs_paceline, only_run, paceline, replay, train, trained
from torch import nn

pytestmark = needs_paceline

# A program in two parts: the task, which the tests solve with plain PyTorch too, and the loop over it. The loop keeps
# the samples of each step and the weights that it computed with.
CLASSES = """
import torch, torch.nn as nn, torch.nn.functional as F

def make(dtype=torch.float32):
    torch.manual_seed(0)
    x = torch.randn(640, 10)
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))
    return model.to(dtype), x.to(dtype), (x[:, 0] > 0).long()

def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)

loss_of = F.cross_entropy
"""

# A line to be found: its loss goes to nothing.
LINE = """
import torch, torch.nn as nn, torch.nn.functional as F

def make(dtype=torch.float32):
    torch.manual_seed(0)
    x = torch.randn(640, 10)
    y = x @ torch.randn(10, 1) * 0.3
    model = nn.Sequential(nn.Linear(10, 16), nn.Linear(16, 1))
    return model.to(dtype), x.to(dtype), y.to(dtype)

def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.006, momentum=0.5)

loss_of = F.mse_loss
"""

LOOP = """
import sys
import paceline

model, x, y = make()
device = paceline.device()
model = model.to(device)
optimizer = make_optimizer(model)

def validate():
    return {"loss": loss_of(model(x.to(device)), y.to(device))}

job = paceline.join(model, torch.utils.data.TensorDataset(x, y), optimizer=optimizer, evaluate=validate,
                    batch_size=16, epochs=float(sys.argv[1]), num_workers=int(sys.argv[2]),
                    processes=int(sys.argv[3]) if sys.argv[3:] else 1)
steps = []
for inputs, targets in job:
    steps.append((list(job.samples), nn.utils.parameters_to_vector(model.parameters()).detach().cpu()))
    loss = loss_of(model(inputs), targets)
    loss.backward()
    job.step(loss)
if job.role != "evaluator":
    torch.save(steps, f"steps-{job.name}-{job.role}.pt")
"""

Steps = list[tuple[list[int], torch.Tensor]]


def steps_of(folder: Path, devices: int) -> list[Steps]:
    return [torch.load(folder / f"steps-w{number}-worker.pt") for number in range(devices)]


def summary_of(run: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return summary


def rounds_of(workers: list[Steps]) -> list[list[list[int]]]:
    """The batches of each bulk-synchronous round."""
    last = max(len(steps) for steps in workers)
    return [[steps[k][0] for steps in workers if k < len(steps)] for k in range(last)]


class Plain:
    """Plain PyTorch on the same samples: the weights before each step, and at the end."""

    def __init__(self, task: str, rounds: list[list[list[int]]], dtype: torch.dtype, order: int = 0) -> None:
        scope: dict[str, Any] = {}
        exec(task, scope)
        self.model, x, y = scope["make"](dtype)
        optimizer = scope["make_optimizer"](self.model)
        shuffled = torch.Generator().manual_seed(order)
        self.weights = [nn.utils.parameters_to_vector(self.model.parameters()).detach()]
        for batches in rounds:
            samples = torch.tensor([index for batch in batches for index in batch])
            if order > 0:  # a sum in another order is as right
                samples = samples[torch.randperm(len(samples), generator=shuffled)]
            optimizer.zero_grad()
            scope["loss_of"](self.model(x[samples]), y[samples]).backward()
            optimizer.step()
            self.weights.append(nn.utils.parameters_to_vector(self.model.parameters()).detach())


def loss_of_line(weights: torch.Tensor) -> float:
    """Over all samples, without rounding of its own."""
    scope: dict[str, Any] = {}
    exec(LINE, scope)
    model, x, y = scope["make"](torch.float64)
    nn.utils.vector_to_parameters(weights.double(), model.parameters())
    return F.mse_loss(model(x), y).item()


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.double() - b.double()).abs().max() / b.double().abs().max())


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_bulk_synchronous_training_is_plain_pytorch(tmp_path: Path, devices: int) -> None:
    """50 steps: the weights before each of them, and what is exported in the end."""
    epochs = 50 * 16 * devices / 640
    run = trained(tmp_path, CLASSES + LOOP, devices, arguments=[str(epochs), "0"])
    workers = steps_of(tmp_path, devices)
    rounds = rounds_of(workers)
    assert len(rounds) == 50
    if devices == 4:
        seen = [index for batches in rounds for batch in batches for index in batch]
        assert sorted(seen) == sorted(5 * list(range(640)))
    plain = Plain(CLASSES, rounds, torch.float32)
    for steps in workers:
        for (_, ours), theirs in zip(steps, plain.weights):
            assert distance(ours, theirs) <= 1e-5
    plain_state = plain.model.state_dict()
    state = exported(tmp_path, run)
    assert state.keys() == plain_state.keys()
    for name, value in state.items():
        assert distance(value, plain_state[name]) <= 1e-5, name
    replay(tmp_path, run)


def test_a_worker_of_two_processes_is_plain_pytorch(tmp_path: Path) -> None:
    run = trained(tmp_path, CLASSES + LOOP, 1, arguments=["1", "0", "2"])
    halves = [torch.load(tmp_path / f"steps-w0-{role}.pt") for role in ("worker", "follower")]
    rounds = rounds_of(halves)
    assert all(len(batch) == 8 for batches in rounds for batch in batches)
    plain = Plain(CLASSES, rounds, torch.float32).weights
    for half in halves:
        assert len(half) == 40
        for (_, ours), theirs in zip(half, plain):
            assert distance(ours, theirs) <= 1e-5
    replay(tmp_path, run)


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_module_of_a_package(tmp_path: Path, by_hand: bool) -> None:
    """Its workers, and the processes of each, start as `python -m` starts it."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "__init__.py").touch()
    (project / "classes.py").write_text(CLASSES)
    (project / "train.py").write_text("from .classes import *\n" + LOOP)
    words = ["-m", "project.train"]
    if by_hand:
        command = [sys.executable, *words, "0.5", "0", "2"]
        ended = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=600)
    else:
        command = ["run", "--devices", "2", "--python", sys.executable, *words, "0.5", "0", "2"]
        ended = paceline(tmp_path, *command)
    assert ended.returncode == 0, ended.stderr
    assert "320 of 320 samples" in ended.stdout
    run = only_run(tmp_path)
    assert run.name.startswith("project-train-")
    replay(tmp_path, run)


def test_a_script_with_an_option_that_paceline_has_too(tmp_path: Path) -> None:
    task = CLASSES + LOOP.replace("sys.argv[1]", "0.1").replace("sys.argv[2]", "0").replace("sys.argv[3:]", "False")
    program = task + "open('argv', 'w').write(' '.join(sys.argv[1:]))\n"
    trained(tmp_path, program, 1, ["--virtual", "-m", "resnet", "--rate", "3"])
    assert (tmp_path / "argv").read_text() == "-m resnet --rate 3"


def test_what_is_left_of_the_difference_is_rounding(tmp_path: Path) -> None:
    """Near a loss of nothing the last bits of the weights are much of the loss. So it is with any order of the sums."""
    trained(tmp_path, LINE + LOOP, 2, arguments=["12", "0"])
    workers = steps_of(tmp_path, 2)
    rounds = rounds_of(workers)
    assert len(rounds) == 240
    ours = [weights for _, weights in workers[0]]
    exact = Plain(LINE, rounds, torch.float64).weights
    orders = [Plain(LINE, rounds, torch.float32, order).weights for order in range(4)]

    late = [k for k in range(150, 240) if 1e-6 < loss_of_line(exact[k]) < 1e-4]
    assert len(late) > 10
    off = max(distance(ours[k], exact[k]) for k in late)
    assert off <= 2 * max(distance(weights[k], exact[k]) for weights in orders for k in late)

    def loss_off(weights: list[torch.Tensor]) -> float:
        return max(abs(loss_of_line(weights[k]) / loss_of_line(exact[k]) - 1) for k in late)

    assert loss_off(ours) <= 3 * max(loss_off(weights) for weights in orders)


POLICIES = ["bsp", "asp", "ssp:3", "dssp:3-15", "elastic-bsp:15", "cgp", "local-sgd:4", "backup:1"]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_trains_and_replays(tmp_path: Path, policy: str) -> None:
    run = trained(tmp_path, CLASSES + LOOP, 2, ["--policy", policy], ["2", "1"])
    seen = sorted(index for steps in steps_of(tmp_path, 2) for samples, _ in steps for index in samples)
    twice = sorted(2 * list(range(640)))
    if policy.startswith("backup"):
        # Gradients that came too late were discarded, and their samples trained on again.
        assert len(seen) >= len(twice) and set(seen) == set(twice)
    else:
        assert seen == twice
    assert summary_of(run)["summary"]["last_evaluation"]["loss"] < 0.5  # 0.75 at first
    replay(tmp_path, run)


# Code that notes how many loads a worker's loader hears of, each time that it hears of any.
HEARS = """
def listening(loader):
    listen = loader.expect
    def expect(loads):
        with open(f"heard-{job.name}", "a") as file:
            print(len(loads), file=file)
        listen(loads)
    loader.expect = expect
if job.role == "worker":
    listening(job._loader)
"""


def test_steps_between_two_commits_are_read_ahead_too(tmp_path: Path) -> None:
    assert LOOP.count("steps = []\n") == 1
    program = CLASSES + LOOP.replace("steps = []\n", "steps = []\n" + HEARS)
    trained(tmp_path, program, 2, ["--policy", "local-sgd:4"], ["2", "1"])
    for worker in range(2):
        heard = [int(line) for line in (tmp_path / f"heard-w{worker}").read_text().split()]
        # The four steps of a round, and what is reserved of the next ones.
        assert max(heard) >= 8 and min(heard) >= 1, heard


def test_virtual_time_gives_the_same_trace_twice(tmp_path: Path) -> None:
    traces = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        trained(folder, CLASSES + LOOP, 3, ["--policy", "asp", "--virtual"], ["1", "0"])
        traces.append(summary_of(only_run(folder)))
    assert traces[0]["summary"]["trace_hash"] == traces[1]["summary"]["trace_hash"]
    assert traces[0]["training"] == traces[1]["training"]  # to the last bit


NORMS = """
import torch, torch.nn as nn
import paceline

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm1d(1, momentum=momentum) for momentum in (0.01, 0.1, 0.5)])
        self.last = nn.Linear(3, 1)
    def forward(self, x):
        return self.last(torch.cat([norm(x) for norm in self.norms], 1))

torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
job = paceline.join(model, torch.utils.data.TensorDataset(torch.full((640, 1), 3.0)), optimizer=optimizer, batch_size=16)
for (x,) in job:
    loss = model(x).pow(2).mean()
    loss.backward()
    job.step(loss)
"""


@pytest.mark.parametrize("policy, least, most", [("bsp", 0.9999, 1.0001), ("cgp", 0.9, 1.01), ("asp", 0.59, 1.01)])
def test_statistics_of_any_momentum_follow_what_is_seen(
    tmp_path: Path, policy: str, least: float, most: float
) -> None:
    """Each of 10 rounds goes a part of the way from 0 to the 3 that every sample is.

    Of lone commits it is a smaller part: each member starts from statistics that others have moved since.
    """
    run = trained(tmp_path, NORMS, 4, ["--policy", policy, "--virtual"])
    state = exported(tmp_path, run)
    for number, momentum in enumerate((0.01, 0.1, 0.5)):
        left = 1 - state[f"norms.{number}.running_mean"].item() / 3
        moved = 1 - left ** (1 / 10)
        assert least * momentum <= moved <= most * momentum
        assert state[f"norms.{number}.running_var"].item() == pytest.approx(left, rel=1e-3)  # from 1 to 0


def test_a_script_that_fails_after_the_job(tmp_path: Path) -> None:
    after = "if job.name == 'w1':\n    raise OSError('the disk is full')\n"
    ended = train(tmp_path, CLASSES + LOOP + after, 2, arguments=["0.2", "0"])
    assert ended.returncode == 2 and "128 of 128 samples" in ended.stdout and "report: " in ended.stdout
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("paceline: ")]
    assert line == (
        "paceline: w1: train.py: exit status 1 after the job was over; logs/w1.log says more, "
        "and nothing of the run is lost"
    )
    assert "OSError: the disk is full" in (only_run(tmp_path) / "logs" / "w1.log").read_text()
    replay(tmp_path, only_run(tmp_path))


def test_a_script_that_fails_after_the_job_in_virtual_time(tmp_path: Path) -> None:
    after = "raise OSError('the disk is full')\n"
    ended = train(tmp_path, CLASSES + LOOP + after, 1, ["--virtual"], ["0.1", "0"])
    assert ended.returncode == 2 and "64 of 64 samples" in ended.stdout
    assert "OSError: the disk is full" in ended.stderr
    line = "paceline: train.py: exit status 1 after the job was over; nothing of the run is lost"
    assert ended.stderr.splitlines()[-1] == line


def test_the_script_goes_on_after_the_job(tmp_path: Path) -> None:
    """Nothing of it is cut off, in any process: 3 seconds are more than everything else takes to end."""
    after = """
import time
with open(f"after-{job.name}-{job.role}", "w") as file:
    file.write("begun, ")
    file.flush()
    time.sleep(3)
    file.write("done")
"""
    trained(tmp_path, CLASSES + LOOP + after, 2, arguments=["0.2", "1"])
    written = {path.name: path.read_text() for path in tmp_path.glob("after-*")}
    assert written == dict.fromkeys(
        ["after-w0-worker", "after-w1-worker", "after-evaluator-evaluator"], "begun, done"
    )


def test_a_program_that_says_falsely_that_its_gradient_is_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The servers look at what they make of it: the run ends with one line, and no checkpoint is spoilt."""
    lie = """
import paceline, paceline.device_binding
paceline.device_binding.is_finite = lambda bits: True
"""
    spoils = LOOP.replace(
        "    job.step(loss)",
        "    if len(steps) == 4:\n        model[0].weight.grad[0, 0] = float('nan')\n    job.step(loss)",
    )
    monkeypatch.setenv("PACELINE_DEVICE", "stand-in")
    ended = train(tmp_path, CLASSES + lie + spoils, 1, arguments=["1", "0"])
    assert ended.returncode == 2, ended.stderr
    assert "version 4 has weights that are not finite numbers" in ended.stderr
    assert "The checkpoints before it are whole" in ended.stderr
