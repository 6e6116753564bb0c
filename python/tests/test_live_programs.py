"""Programs as people write them who know PyTorch and have read docs/python.md: plain PyTorch's weights, or one line."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from live_job import environment, needs_paceline, train
from torch.utils.data import default_collate

pytestmark = needs_paceline

TASK = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.optim.lr_scheduler import *
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

BATCH, EPOCHS, STEPS = 16, 3, 6  # STEPS: of an epoch
torch.manual_seed(0)
x_all = torch.randn(BATCH * STEPS, 6)
data = torch.utils.data.TensorDataset(x_all, x_all[:, :1].sin())
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
schedule = per = result = None

def compute(x, y):
    loss = F.mse_loss(model(x), y)
    loss.backward()
    return loss

def stepped(step, loss):
    pass

"""

LOOP = """
import os
import paceline

job = paceline.join(model, data, optimizer=optimizer, schedule=schedule, schedule_per=per, batch_size=BATCH,
                    epochs=EPOCHS)
kept = []
for step, (x, y) in enumerate(job):
    kept.append(list(job.samples))
    loss = compute(x, y)
    job.step(loss)
    stepped(step, loss)
if job.role == "worker":
    torch.save([kept, (result or model).state_dict()], "ours.pt")
"""

EQUAL = {
    "an average of the weights": """
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        result = average.module
        def stepped(step, loss):
            average.update_parameters(model)
    """,
    "a teacher in buffers": """
        import copy
        model = nn.ModuleDict({"student": model, "teacher": copy.deepcopy(model)})
        for module in model["teacher"].modules():
            for name, value in [*module.named_parameters(recurse=False)]:
                delattr(module, name)
                module.register_buffer(name, value.detach().clone())
        def compute(x, y):
            out = model["student"](x)
            loss = F.mse_loss(out, y) + F.mse_loss(out, model["teacher"](x))
            loss.backward()
            return loss
        def stepped(step, loss):
            with torch.no_grad():
                for name, value in model["student"].named_parameters():
                    model["teacher"].get_buffer(name).lerp_(value, 0.1)
    """,
    "a warm-up and a cosine in a row": """
        parts = [LinearLR(optimizer, 0.1, total_iters=5), CosineAnnealingLR(optimizer, EPOCHS * STEPS - 5)]
        schedule, per = SequentialLR(optimizer, parts, [5]), "step"
    """,
    "chained schedulers": """
        parts = [ConstantLR(optimizer, 0.1, total_iters=4), ExponentialLR(optimizer, 0.95)]
        schedule, per = ChainedScheduler(parts, optimizer), "step"
    """,
    "one cycle": """
        schedule, per = OneCycleLR(optimizer, 0.2, total_steps=EPOCHS * STEPS, cycle_momentum=False), "step"
    """,
    "warm restarts in steps": """
        schedule, per = CosineAnnealingWarmRestarts(optimizer, T_0=2 * STEPS), "step"
    """,
    "parts of a batch": """
        def compute(x, y):
            losses = [F.mse_loss(model(a), b) / 4 for a, b in zip(x.chunk(4), y.chunk(4))]
            for loss in losses:
                loss.backward()
            return sum(loss.item() for loss in losses)
    """,
    "two backward passes through one graph": """
        def compute(x, y):
            out = model(x)
            loss = F.mse_loss(out, y)
            loss.backward(retain_graph=True)
            (0.1 * out.abs().mean()).backward()
            return loss
    """,
    "gradients of torch.func": """
        from torch.func import functional_call, grad_and_value
        def compute(x, y):
            parameters = {name: p.detach() for name, p in model.named_parameters()}
            of = lambda some: F.mse_loss(functional_call(model, some, (x,)), y)
            gradients, loss = grad_and_value(of)(parameters)
            for name, p in model.named_parameters():
                p.grad = gradients[name]
            return loss
    """,
    "values of gradients clipped": """
        def compute(x, y):
            loss = F.mse_loss(model(x), y)
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.02)
            return loss
    """,
    "gradients set to zero in place": """
        def compute(x, y):
            optimizer.zero_grad(set_to_none=False)
            model.zero_grad(set_to_none=False)
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss
    """,
    "anomalies detected": """
        def compute(x, y):
            with torch.autograd.detect_anomaly():
                loss = F.mse_loss(model(x), y)
                loss.backward()
            return loss
    """,
    "evaluated in the loop": """
        def compute(x, y):
            with torch.inference_mode():
                model.eval()
                F.mse_loss(model(x_all), x_all[:, :1])
                model.train()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss
    """,
    "a penalty on the gradient": """
        def compute(x, y):
            out = model(x.requires_grad_())
            [slope] = torch.autograd.grad(out.sum(), x, create_graph=True)
            loss = F.mse_loss(out, y) + 0.1 * slope.square().mean()
            loss.backward()
            return loss
    """,
    "a default device, and a model in a dataclass": """
        from dataclasses import dataclass
        torch.set_default_device("cpu")
        @dataclass
        class State:
            model: nn.Module
            optimizer: torch.optim.Optimizer
        state = State(model, torch.optim.AdamW(model.named_parameters(), 0.01))
        model, optimizer = state.model, state.optimizer
    """,
}


def expect_plain_weights(folder: Path, task: str) -> None:
    kept, ours = torch.load(folder / "ours.pt")
    plain: dict[str, Any] = {}
    exec(task, plain)
    for step, samples in enumerate(kept):
        plain["optimizer"].zero_grad()
        loss = plain["compute"](*default_collate([plain["data"][one] for one in samples]))
        plain["optimizer"].step()
        if plain["schedule"] is not None and step + 1 < len(kept):
            plain["schedule"].step()
        plain["stepped"](step, loss)
    assert len(kept) == plain["EPOCHS"] * plain["STEPS"]
    for name, value in (plain["result"] or plain["model"]).state_dict().items():
        assert torch.allclose(ours[name], value, atol=2e-5), (name, (ours[name] - value).abs().max())


@pytest.mark.parametrize("program", EQUAL)
def test_the_weights_are_plain_pytorchs(tmp_path: Path, program: str) -> None:
    task = TASK + textwrap.dedent(EQUAL[program])
    ended = train(tmp_path, task + LOOP, 1)
    assert ended.returncode == 0, ended.stderr
    expect_plain_weights(tmp_path, task)


GAN = """
model = nn.ModuleDict({"g": nn.Linear(3, 6), "d": nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))})
groups = [{"params": [*model["g"].parameters()]}, {"params": [*model["d"].parameters()], "lr": 0.02}]
optimizer = torch.optim.Adam(groups, 0.01)

def losses(x):
    g, d, noise = model["g"], model["d"], x[:, :3]
    d_loss = F.softplus(-d(x)).mean() + F.softplus(d(g(noise).detach())).mean()
    return d_loss, F.softplus(-d(g(noise))).mean()
"""
# The advice of docs/python.md for several optimizers.
GAN_IN_A_JOB = """
def compute(x, y):
    d_loss, g_loss = losses(x)
    d_loss.backward(inputs=[*model["d"].parameters()])
    g_loss.backward(inputs=[*model["g"].parameters()])
    return d_loss
"""
PLAIN_GAN = """
def compute(x, y):
    for loss, part in zip(losses(x), (model["d"], model["g"])):
        for parameter, gradient in zip(part.parameters(), torch.autograd.grad(loss, [*part.parameters()])):
            parameter.grad = gradient
    return loss
"""


def test_two_losses_of_two_parts(tmp_path: Path) -> None:
    ended = train(tmp_path, TASK + GAN + GAN_IN_A_JOB + LOOP, 1)
    assert ended.returncode == 0, ended.stderr
    expect_plain_weights(tmp_path, TASK + GAN + PLAIN_GAN)


def test_so_they_are_without_assertions(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        TASK + LOOP + '\nimport sys\nopen("level", "w").write(str(sys.flags.optimize))\n'
    )
    words = [sys.executable, "-O", "train.py"]
    ended = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "level").read_text() == "1"
    expect_plain_weights(tmp_path, TASK)


REFUSED = {
    "a scheduler that takes parts of an epoch": (
        """
        schedule = CosineAnnealingWarmRestarts(optimizer, T_0=2)
        def stepped(step, loss):
            schedule.step((step + 1) / STEPS)
        """,
        "the scheduler was stepped to 0.166667, and the servers take whole steps only; count its lengths (such as T_0) "
        'in steps of the job, write schedule_per="step", and leave scheduler.step() out of the loop',
    ),
    "steps that are taken for epochs": (
        "schedule = CosineAnnealingLR(optimizer, EPOCHS * STEPS)",
        'the schedule is as long as the job in steps; write schedule_per="step" if it counts steps',
    ),
    "a scheduler that is stepped each batch": (
        """
        schedule = ExponentialLR(optimizer, 0.9)
        def stepped(step, loss):
            schedule.step()
        """,
        'the scheduler was stepped 2 times by epoch 0, and the servers step it once an epoch; write schedule_per="step"',
    ),
    "a plateau that is stepped by hand": (
        """
        plateau = ReduceLROnPlateau(optimizer, patience=0, threshold=10)
        def stepped(step, loss):
            plateau.step(loss.item())
        """,
        "the optimizer's lr was 0.1 at join() and is 0.01 now, and the servers step with the first; give join() "
        "schedule= with any scheduler of torch.optim but ReduceLROnPlateau, such as LambdaLR",
    ),
}


@pytest.mark.parametrize("program", REFUSED)
def test_one_line_says_the_place_and_the_way_out(tmp_path: Path, program: str) -> None:
    more, line = REFUSED[program]
    ended = train(tmp_path, TASK + textwrap.dedent(more) + LOOP, 1)
    assert ended.returncode == 2, ended.stderr
    [said] = [one for one in ended.stderr.splitlines() if one.startswith("paceline: ")]
    assert line in said and "train.py:" in said, said
