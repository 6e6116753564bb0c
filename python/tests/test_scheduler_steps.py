"""A program may step its scheduler as often as it has batches, however many these are."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_member import Member
from scripts import HEAD
from torch import nn
from torch.optim import lr_scheduler

from paceline.errors import PacelineError
from paceline.optimizer_guard import OptimizerGuard
from paceline.scheduler_steps import limit_steps

RATES = [1.0, 0.5, 0.25, 0.125]


def optimizer_of_one() -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)


class Own:
    """A scheduler without a place that it tells."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.rates = iter(RATES[1:])

    def step(self) -> None:
        self.optimizer.param_groups[0]["lr"] = next(self.rates)


class Slots:
    __slots__ = ("optimizer", "place")

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer, self.place = optimizer, 0

    def step(self) -> None:
        self.place += 1
        self.optimizer.param_groups[0]["lr"] = RATES[self.place]


MAKES: dict[str, Any] = {
    "OneCycleLR": lambda one: lr_scheduler.OneCycleLR(one, 1.0, total_steps=4, cycle_momentum=False),
    "LambdaLR over a list": lambda one: lr_scheduler.LambdaLR(one, lambda step: RATES[step]),
    "SequentialLR": lambda one: lr_scheduler.SequentialLR(
        one, [lr_scheduler.ConstantLR(one), lr_scheduler.LambdaLR(one, lambda step: RATES[step])], [1]
    ),
    "a class of somebody else's": Own,
    "one with slots": Slots,
}


@pytest.mark.parametrize("name", MAKES)
def test_steps_behind_the_last_one_do_nothing(name: str) -> None:
    optimizer = optimizer_of_one()
    schedule = MAKES[name](optimizer)
    limit_steps(schedule, 4)
    rates = []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    again = optimizer_of_one()
    plain = MAKES[name](again)
    for rate in rates[:4]:
        assert rate == again.param_groups[0]["lr"]
        try:
            plain.step()
        except Exception:
            assert rate is rates[3]
    assert rates[4] == rates[5] == rates[6] == again.param_groups[0]["lr"]


def test_the_last_step_is_taken_if_there_is_one() -> None:
    optimizer = optimizer_of_one()
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    limit_steps(schedule, 3)
    for _ in range(5):
        schedule.step()
    assert schedule.last_epoch == 3 and schedule.get_last_lr() == [0.125]


def test_an_error_before_the_last_step_is_the_program_s() -> None:
    schedule = lr_scheduler.LambdaLR(optimizer_of_one(), lambda step: RATES[step])
    limit_steps(schedule, 8)
    with pytest.raises(IndexError):
        for _ in range(8):
            schedule.step()


def test_it_is_still_the_same_scheduler() -> None:
    schedule = lr_scheduler.StepLR(optimizer_of_one(), 1, 0.5)
    before = schedule.state_dict()
    limit_steps(schedule, 1)
    limit_steps(schedule, 1)
    assert isinstance(schedule, lr_scheduler.StepLR) and schedule.state_dict() == before
    assert type(schedule).__module__ == "torch.optim.lr_scheduler" and "StepLR" in repr(schedule)
    for one in (copy.deepcopy(schedule), pickle.loads(pickle.dumps(schedule))):
        assert type(one) is lr_scheduler.StepLR
        one.step()
        one.step()
        assert one.last_epoch == 2
    assert schedule.last_epoch == 0
    schedule.step(5)  # to a place that the program names
    assert schedule.last_epoch == 5


def test_steps_that_are_left_out_count_as_too_many_for_epochs() -> None:
    optimizer = optimizer_of_one()
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    guard = OptimizerGuard(optimizer, None, schedule, an_epoch=True, length=1)
    schedule.step()
    guard.check(epoch=0)
    schedule.step()
    with pytest.raises(PacelineError, match="was stepped 2 times by epoch 0"):
        guard.check(epoch=0)


def test_a_program_that_steps_at_each_change_of_the_epoch() -> None:
    """A batch of an epoch before comes again if its worker was lost."""
    optimizer = optimizer_of_one()
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    guard = OptimizerGuard(optimizer, None, schedule, an_epoch=True, length=9)
    last = 0
    for epoch in (0, 1, 2, 1, 2, 1, 2):
        if epoch != last:
            schedule.step()
        last = epoch
        guard.check(epoch)
    schedule.step()
    guard.check(2)
    schedule.step()
    with pytest.raises(PacelineError, match="was stepped 8 times by epoch 2"):
        guard.check(2)


@pytest.mark.parametrize(
    "schedule",
    [
        "OneCycleLR(optimizer, 0.5, total_steps=4, cycle_momentum=False)",
        "LambdaLR(optimizer, lambda step: [1.0, 0.9, 0.8, 0.7][step])",
    ],
)
def test_a_worker_with_more_than_its_even_share(tmp_path: Path, schedule: str) -> None:
    body = f"""
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
schedule = torch.optim.lr_scheduler.{schedule}
job = paceline.join(model, Points(), optimizer=optimizer, schedule=schedule, schedule_per="step", epochs=2)
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
    schedule.step()
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        for _ in range(7):
            member.step(range(4))
        assert member.end() == 0, member.log


def test_a_scheduler_of_the_program_gives_no_warning_about_the_order() -> None:
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    guard = OptimizerGuard(optimizer, None, scheduler)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
    guard.release()
    assert not hasattr(optimizer, "_opt_called")
