"""Schedulers of optimizers whose groups have rates of their own."""

from __future__ import annotations

import pytest
import torch

from paceline.errors import PacelineError
from paceline.schedules import read_schedule

schedulers = torch.optim.lr_scheduler


def test_groups_with_schedules_of_their_own_are_refused() -> None:
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(2)]
    opt = torch.optim.SGD(groups, lr=0.1)
    scheduler = schedulers.LambdaLR(opt, [lambda e: 1.0, lambda e: 1 / (1 + e)])
    with pytest.raises(PacelineError, match="one schedule"):
        read_schedule(opt, scheduler, "epoch", 3, 100, 10)


def test_a_rate_that_begins_with_zero_has_no_factor() -> None:
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (0.1, 0.0)]
    opt = torch.optim.SGD(groups)
    with pytest.raises(PacelineError, match="one schedule"):
        read_schedule(opt, schedulers.CosineAnnealingLR(opt, 3, eta_min=0.01), "epoch", 3, 100, 10)
    opt = torch.optim.SGD(groups)
    assert read_schedule(opt, schedulers.ExponentialLR(opt, 0.5), "epoch", 3, 100, 10) is not None
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.0)
    with pytest.raises(PacelineError, match="give the optimizer an lr"):
        read_schedule(opt, schedulers.LambdaLR(opt, lambda e: 1 / (1 + e)), "epoch", 3, 100, 10)
