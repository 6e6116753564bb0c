"""An optimizer beside the job's, over parameters that the joined model does not have: one line, if that is certain."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.optim.optimizer as torchs
from fake_member import Member
from scripts import HEAD
from torch import nn

from paceline.other_optimizers import OtherOptimizers

pytestmark = pytest.mark.skipif(
    not hasattr(torchs, "register_optimizer_step_post_hook"), reason="this PyTorch has no such hooks"
)


def step(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    optimizer.step()


def discriminator(model: nn.Module) -> Callable[[], None]:
    optimizer = torch.optim.Adam(nn.Linear(2, 1).parameters())
    return lambda: step(optimizer)


def inner_loop(model: nn.Module) -> Callable[[], None]:
    def batch() -> None:
        optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), 0.1)
        for _ in range(5):
            step(optimizer)

    return batch


def kept_copy(model: nn.Module) -> Callable[[], None]:
    fast = copy.deepcopy(model)
    optimizer = torch.optim.SGD(fast.parameters(), 0.1)

    def batch() -> None:
        fast.load_state_dict(model.state_dict())
        for _ in range(5):
            step(optimizer)

    return batch


def attack(model: nn.Module) -> Callable[[], None]:
    noise = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([noise])
    return lambda: step(optimizer)


def own_weights(model: nn.Module) -> Callable[[], None]:
    optimizer = torch.optim.SGD([*model.parameters(), *nn.Linear(2, 1).parameters()], 0.1)
    return lambda: step(optimizer)


@pytest.fixture
def others() -> Iterator[tuple[nn.Module, OtherOptimizers]]:
    model = nn.Linear(3, 2)
    others = OtherOptimizers(model)
    yield model, others
    others.close()


@pytest.mark.parametrize("program", [discriminator, inner_loop, kept_copy, attack, own_weights])
def test_only_what_is_trained_from_batch_to_batch_counts(others: Any, program: Any, capsys: Any) -> None:
    model, watching = others
    batch = program(model)
    said = []
    for _ in range(6):
        batch()
        watching.batch_is_over()
        said.append(capsys.readouterr().err)
    if program is not discriminator:
        assert said == [""] * 6
        return
    [line] = [one for one in said if one]
    assert said.index(line) == 2
    assert "the Adam that steps here has parameters outside the model that join() got" in line and ".py:" in line


def test_behind_the_job_it_is_the_programs_own_matter(others: Any, capsys: Any) -> None:
    model, watching = others
    batch = discriminator(model)
    watching.close()
    for _ in range(6):
        batch()
        watching.batch_is_over()
    assert capsys.readouterr().err == ""


SCRIPT = """
model = Net()
other = nn.Linear(6, 1)
optimizer = torch.optim.Adam(other.parameters())
job = paceline.join(model, Points())
for x, y in job:
    other(x).sum().backward()
    optimizer.step()
    loss_of(model, x, y).backward()
    job.step(1.0)
optimizer.step()
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_a_job_of_one_process_has_one_of_them(tmp_path: Any, devices: int) -> None:
    with Member(tmp_path, HEAD + SCRIPT, devices=devices) as member:
        member.begin()
        for _ in range(4):
            member.step(range(4))
        assert member.end() == 0, member.log
        place = f"paceline: train.py:{HEAD.count(chr(10)) + 8}: the Adam that steps here"
        assert member.log.count(place) == devices - 1
