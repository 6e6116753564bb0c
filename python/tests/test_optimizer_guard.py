"""A scheduler that the program steps otherwise than the servers do is refused, and the line says what works."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from paceline.errors import PacelineError
from paceline.optimizer_guard import OptimizerGuard


def optimizer_of_one() -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)


@pytest.mark.parametrize("an_epoch", [False, True])
def test_a_scheduler_that_is_stepped_to_a_part_of_an_epoch_is_refused(an_epoch: bool) -> None:
    optimizer = optimizer_of_one()
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    guard = OptimizerGuard(optimizer, None, schedule, an_epoch)
    guard.check()
    schedule.step(1)
    guard.check()
    schedule.step(1.5)
    with pytest.raises(PacelineError, match=r"was stepped to 1.5, and .*T_0\) in steps .*schedule_per=\"step\""):
        guard.check()


def test_a_scheduler_that_is_stepped_each_batch_though_it_counts_epochs_is_refused() -> None:
    for an_epoch in (True, False):
        optimizer = optimizer_of_one()
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        schedule.load_state_dict({**schedule.state_dict(), "last_epoch": 40})
        guard = OptimizerGuard(optimizer, None, schedule, an_epoch)
        schedule.step()
        guard.check(epoch=0)
        schedule.step()
        guard.check(epoch=1)
        schedule.step()
        if an_epoch:
            with pytest.raises(
                PacelineError, match='was stepped 3 times by epoch 1, .* write schedule_per="step" if'
            ):
                guard.check(epoch=1)
        else:
            guard.check(epoch=1)


@pytest.mark.parametrize("made_before", [True, False])
def test_the_advice_about_a_plateau_does_not_lead_to_another_refusal(made_before: bool) -> None:
    optimizer = optimizer_of_one()
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    guard = OptimizerGuard(optimizer, None)
    if not made_before:
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    plateau.step(1.0)
    plateau.step(2.0)
    with pytest.raises(
        PacelineError,
        match=r"lr was 0.5 at join\(\) and is 0.05 now, .* any scheduler of torch.optim but ReduceLROnPlateau, such as LambdaLR, or",
    ):
        guard.check()
