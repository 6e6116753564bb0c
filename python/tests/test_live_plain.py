"""Bulk-synchronous jobs have plain PyTorch's weights for the same batches, whatever the data set's length."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from live_job import exported, needs_paceline, replay, trained

pytestmark = needs_paceline

# make() is the task, loss_of() the mean loss over a batch and its weight, STEPS what the loop kept of each step.
TEXTS = """
import torch, torch.nn as nn, torch.nn.functional as F

def make():
    torch.manual_seed(3)
    rows = [torch.randint(0, 20, (2 + (7 * i) % 29,)) for i in range(SAMPLES)]
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20)), rows

def collate(rows):
    width = max(map(len, rows))
    x, y = torch.zeros(len(rows), width, dtype=torch.long), torch.full((len(rows), width), -100)
    for at, row in enumerate(rows):
        x[at, : len(row)], y[at, : len(row) - 1] = row, row[1:]
    return x, y

def loss_of(model, x, y):
    return F.cross_entropy(model(x).transpose(1, 2), y, ignore_index=-100), (y != -100).sum()
"""

POINTS = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import default_collate as collate

def make():
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, 6)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)), torch.utils.data.TensorDataset(x, x[:, :1])

def loss_of(model, x, y):
    return F.mse_loss(model(x), y), None
"""

# The weights of a step tell which workers' batches are of one round.
LOOP = """
import hashlib, json, sys
import paceline

model, data = make()
optimizer = make_optimizer(model)
schedule = make_schedule(optimizer)
job = paceline.join(model, data, optimizer=optimizer, schedule=schedule, schedule_per="step" if schedule else None,
                    batch_size=BATCH, epochs=3, collate_fn=collate)
kept = []
for x, y in job:
    mark = hashlib.md5(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    loss, weight = loss_of(model, x, y)
    loss.backward()
    kept.append((mark, job.samples, loss.item()))
    job.step(loss, weight=weight)
json.dump(kept, open(f"kept-{job.name}.json", "w"))
"""

SGD = "def make_optimizer(model):\n    return torch.optim.SGD(model.parameters(), 0.3, momentum=0.9, weight_decay=1e-3)\n"
ADAM = "def make_optimizer(model):\n    return torch.optim.Adam(model.parameters(), 0.01)\n"
ADAMAX = "def make_optimizer(model):\n    return torch.optim.Adamax(model.parameters(), 0.01, weight_decay=1e-3)\n"
NADAM = "def make_optimizer(model):\n    return torch.optim.NAdam(model.parameters(), 0.01, weight_decay=1e-3)\n"
ADAGRAD = (
    "def make_optimizer(model):\n    return torch.optim.Adagrad("
    "model.parameters(), 0.1, weight_decay=1e-3, initial_accumulator_value=INITIAL)\n"
)
NO_SCHEDULE = "def make_schedule(optimizer):\n    return None\n"
EXPONENTIAL = "def make_schedule(optimizer):\n    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)\n"


def rounds(folder: Path) -> list[list[int]]:
    """The samples of each step of the job, in its order."""
    by_mark: dict[str, list[int]] = {}
    order: list[str] = []
    for path in sorted(folder.glob("kept-w*.json")):
        marks = []
        for mark, samples, _ in json.loads(path.read_text()):
            by_mark.setdefault(mark, []).extend(samples)
            if not marks or marks[-1] != mark:
                marks.append(mark)
        order = max(order, marks, key=len)
    assert set(order) == set(by_mark)
    return [by_mark[mark] for mark in order]


def compare(folder: Path, task: str, devices: int, more: Sequence[str] = (), parts: int = 1) -> None:
    run = trained(folder, task + LOOP, devices, more)
    replay(folder, run)
    expect_plain_weights(folder, run, task)


def expect_plain_weights(folder: Path, run: Path, task: str) -> None:
    """The run of the task has the weights of plain PyTorch for the batches that its workers have kept."""
    scope: dict[str, Any] = {}
    exec(task, scope)
    model, data = scope["make"]()
    optimizer = scope["make_optimizer"](model)
    schedule = scope["make_schedule"](optimizer)
    steps = rounds(folder)
    assert sorted(sum(steps, [])) == sorted(3 * [*range(scope["SAMPLES"])])
    for samples in steps:
        optimizer.zero_grad()
        loss, _ = scope["loss_of"](model, *scope["collate"]([data[i] for i in samples]))
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
    ours = exported(folder, run)
    for name, value in model.state_dict().items():
        assert torch.allclose(ours[name], value, atol=2e-5), (name, (ours[name] - value).abs().max())


@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize(
    "samples, devices, more",
    [
        (100, 1, ()),  # a last batch of 4 of 32
        (100, 1, ("--policy", "asp")),  # one worker has whole rounds under any policy
        (20, 1, ()),  # fewer than a batch
        (100, 2, ()),
        (150, 3, ()),
        (100, 3, ("--set", "parallel=uneven-data")),
    ],
)
def test_the_default_is_plain_pytorchs(
    tmp_path: Path, samples: int, devices: int, more: Sequence[str], optimizer: str
) -> None:
    compare(tmp_path, f"SAMPLES, BATCH = {samples}, 32\n" + POINTS + optimizer + NO_SCHEDULE, devices, more)


@pytest.mark.parametrize("devices", [1, 2])
def test_adamax_is_plain_pytorchs(tmp_path: Path, devices: int) -> None:
    compare(tmp_path, "SAMPLES, BATCH = 100, 32\n" + POINTS + ADAMAX + NO_SCHEDULE, devices)


@pytest.mark.parametrize("devices", [1, 2])
def test_nadam_is_plain_pytorchs(tmp_path: Path, devices: int) -> None:
    compare(tmp_path, "SAMPLES, BATCH = 100, 32\n" + POINTS + NADAM + NO_SCHEDULE, devices)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("initial", [0, 0.1])
def test_adagrad_is_plain_pytorchs(tmp_path: Path, devices: int, initial: float) -> None:
    task = f"SAMPLES, BATCH, INITIAL = 100, 32, {initial}\n"
    compare(tmp_path, task + POINTS + ADAGRAD + NO_SCHEDULE, devices)


@pytest.mark.parametrize("samples", [100, 128])
def test_a_schedule_of_steps_is_plain_pytorchs(tmp_path: Path, samples: int) -> None:
    compare(tmp_path, f"SAMPLES, BATCH = {samples}, 32\n" + POINTS + SGD + EXPONENTIAL, 1)


@pytest.mark.parametrize("devices, more", [(1, ()), (2, ()), (2, ("--set", "parallel=uneven-data")), (3, ())])
def test_means_over_tokens(tmp_path: Path, devices: int, more: Sequence[str]) -> None:
    compare(tmp_path, "SAMPLES, BATCH = 70, 16\n" + TEXTS + SGD + NO_SCHEDULE, devices, more)
