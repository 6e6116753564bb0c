"""A scheduler that the program steps otherwise than the servers do is refused, and the line says what works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def steps_of(batches: list[int], steps: Callable[[int, int, bool], bool], an_epoch: bool = True) -> str:
    """The line for a worker with batches of these epochs, and a program that steps its scheduler if steps() says so.

    steps(batch, epoch, is_new): before a batch that is the worker's first one of an epoch or not.
    """
    optimizer = optimizer_of_one()
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    guard = OptimizerGuard(optimizer, None, schedule, an_epoch, 100)
    for batch, epoch in enumerate(batches):
        if steps(batch, epoch, batch > 0 and epoch != batches[batch - 1]):
            schedule.step()
        try:
            guard.check(epoch)
        except PacelineError as error:
            return str(error)
    return ""


EACH = [epoch for epoch in range(8) for _ in range(4)]


def test_a_scheduler_that_is_first_stepped_late_is_refused() -> None:
    line = steps_of(EACH, lambda batch, epoch, is_new: is_new and epoch >= 5)
    assert line == (
        "the scheduler was not stepped before epoch 5, and the servers step it at each epoch from the first one; let "
        "the scheduler itself wait, as SequentialLR(optimizer, [ConstantLR(optimizer, 1.0, 5), ...], milestones=[5]) "
        "does, and step it once an epoch or not at all"
    )
    assert steps_of(EACH, lambda batch, epoch, is_new: is_new and epoch >= 5, an_epoch=False) == ""


@pytest.mark.parametrize("first", [0, 1, 5])
@pytest.mark.parametrize("batches", [1, 2, 4])
@pytest.mark.parametrize(
    "steps",
    [
        lambda batch, epoch, is_new, own: False,
        lambda batch, epoch, is_new, own: is_new,
        lambda batch, epoch, is_new, own: batch > 1 and own[batch - 1] != own[batch - 2],  # behind its first batch
        lambda batch, epoch, is_new, own: batch > 0 and batch % 4 == 0,  # each worker's even share is four batches
        lambda batch, epoch, is_new, own: batch == len(own) - 1,  # to show the rate at the end
    ],
    ids=["never", "at each epoch", "a batch later", "by its own batches", "once"],
)
def test_a_scheduler_may_be_stepped_in_several_ways(first: int, batches: int, steps: Any) -> None:
    """In a resumed run, or a worker that joins late, the first epoch is another one."""
    own = [epoch for epoch in range(first, first + 9) for _ in range(batches)]
    assert steps_of(own, lambda batch, epoch, is_new: steps(batch, epoch, is_new, own)) == ""


def test_a_worker_that_is_slow_at_first_counts_its_own_batches() -> None:
    own = [0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6]
    assert steps_of(own, lambda batch, epoch, is_new: batch % 4 == 3) == ""


def test_a_worker_without_samples_in_some_epochs() -> None:
    own = [0, 0, 3, 3, 4, 4, 7, 7, 8]
    assert steps_of(own, lambda batch, epoch, is_new: is_new) == ""


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


@pytest.mark.parametrize("scheduled", [False, True])
def test_numbers_that_evaluate_sets(scheduled: bool) -> None:
    optimizer = optimizer_of_one()
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5) if scheduled else None
    guard = OptimizerGuard(optimizer, None, schedule, an_epoch=True, length=9)
    guard.check_evaluation()
    if schedule is not None:
        for _ in range(3):  # an evaluator sees no epoch
            schedule.step()
        guard.check_evaluation()
    optimizer.param_groups[0]["lr"] = 0.3
    with pytest.raises(PacelineError, match="evaluate.. runs in a process that trains nothing, so that the servers"):
        guard.check_evaluation()
    OptimizerGuard(None, None).check_evaluation()


@pytest.mark.parametrize("stepped", [False, True])
def test_a_state_that_is_saved_says_that_the_scheduler_stands(stepped: bool, capsys: Any) -> None:
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=0.5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    OptimizerGuard(optimizer, None, schedule)
    if stepped:  # with the servers
        schedule.step()
    optimizer.state_dict()
    place = "the servers keep, and scheduler.state_dict() has the place of join(); to train on"
    assert (place in capsys.readouterr().err) != stepped


def test_a_step_of_the_programs_own_is_refused() -> None:
    optimizer = optimizer_of_one()
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    OptimizerGuard(optimizer, None, schedule).release()
    optimizer.step = lambda closure=None: None  # type: ignore[method-assign]
    with pytest.raises(
        PacelineError, match=r"has replaced the optimizer's step\(\), .*; do its work in the loop, before"
    ):
        OptimizerGuard(optimizer, None)
