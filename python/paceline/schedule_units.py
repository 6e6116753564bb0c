"""Whether a scheduler counts epochs or steps, and those of which job: what its length and its factors say."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any, Callable

from torch.optim.lr_scheduler import LambdaLR, MultiStepLR, StepLR

from .errors import PacelineError

# The largest factor of a schedule that counts epochs is at least this: a warm-up in steps has hardly begun.
_LEAST_FACTOR = 0.05
# Under which schedulers of torch.optim keep their length.
_LENGTHS = ("total_steps", "T_max", "T_0", "total_iters")
# Epochs of such a length for each epoch of the job. Somebody may try the beginning of a long job.
_MOST_LENGTHS = 10
# No schedule waits for more epochs with its first change, or comes so late to half of its highest rate. The latter
# holds for a schedule without a length; one with a length may come to it at twice as many.
_MOST_STILL = 500
_MOST_LOW = 50
# A change of less than this part of that within the job's steps is none.
_LITTLE = 0.05
# Values that are looked at. Those of a LambdaLR are one call each.
_MOST_STEPPED = 20_000
_MOST_CALLED = 300_000


def refuse_steps(
    scheduler: Any,
    factors: list[float],
    all_factors: Callable[[int], Iterator[float]],
    epochs: float,
    whole_epoch: int,
    alone: float,
) -> None:
    """Raises an error if a scheduler that should count epochs seems to count steps.

    factors: those of the job's epochs. all_factors: the first ones, so many. alone: the job's steps on one device.
    """
    steps = epochs * whole_epoch
    length = _length(scheduler)
    ahead: list[float] = []
    if whole_epoch > 1 and not _turns_down(factors):
        ahead = _look_ahead(scheduler, all_factors, math.ceil(max(steps, alone)) + 2)
        length = length or _end_of_fall(ahead)
    # Many try one epoch of a schedule, and no LambdaLR says its length.
    least = _MOST_STILL if all(factor == 1 for factor in factors) or not _length(scheduler) else 0
    # A loop may drop the last batch of an epoch.
    of_all_steps = any(one > epochs and one in (steps, steps - epochs) for one in (length, _in_a_row(scheduler)))
    if max(factors) < _LEAST_FACTOR:
        why = f"the schedule never comes to {_LEAST_FACTOR:.0%} of the optimizer's rate within {epochs:g} epochs"
    elif length >= _MOST_LENGTHS * epochs and length >= max(steps / 2, least):
        why = f"the schedule is {length:g} long, and the job has {epochs:g} epochs"
    elif of_all_steps:
        why = "the schedule is as long as the job in steps"
    else:
        why = _changes_by_steps(scheduler, factors, ahead[: math.ceil(steps)], epochs, steps)
    if why:
        raise PacelineError(
            f'{why}; write schedule_per="step" if it counts steps, and schedule_per="epoch" if it does count epochs'
        )


def refuse_one_device(scheduler: Any, epochs: float, samples: int, batch: float, bulk: int) -> None:
    """Raises an error if a scheduler of steps is exactly as long as the job on one device, and the job has more.

    batch, bulk: the samples of a batch of one device, and those of a full commit.
    """
    steps = math.ceil(epochs * math.ceil(samples / bulk))
    alone = {epochs * math.ceil(samples / batch), epochs * math.floor(samples / batch)}  # a loop may drop the last
    lengths = (_length(scheduler), _in_a_row(scheduler))
    for length in {math.floor(one) for one in alone}:
        if length > steps and (length in lengths or _falls_until(scheduler, length)):
            raise PacelineError(
                f"the schedule is as long as this job on one device ({length} steps), and the job has {steps}; make "
                "it for math.ceil(samples / (batch_size * paceline.device_count())) steps an epoch"
            )


def _turns_down(factors: list[float]) -> bool:
    """Whether the job's epochs show most of a schedule, so that it counts these."""
    return max(factors) >= 0.5 and _spread(factors) >= 0.5 * max(factors)


def _changes_by_steps(scheduler: Any, factors: list[float], ahead: list[float], epochs: float, steps: float) -> str:
    """Why it seems to count steps, of which `ahead` are the first ones' factors; empty: it does not."""
    still = max(_MOST_STILL, math.ceil(_MOST_LENGTHS * epochs))
    waits = len(ahead) > still and _spread(ahead[:still]) < _LITTLE * _spread(ahead)
    if waits or still < _first_turn(scheduler) < steps:
        return f"the schedule hardly changes within {still} epochs, and it does within the job's {steps:g} steps"
    half = 0.5 * max(ahead, default=0.0)
    late = _MOST_LOW * (2 if _length(scheduler) else 1)
    if max(factors) < half and next(step for step, factor in enumerate(ahead) if factor >= half) >= late:
        return (
            f"the schedule comes to {max(factors) / max(ahead):.0%} of its highest rate within {epochs:g} epochs, "
            "and to all of it within the job's steps"
        )
    return ""


def _first_turn(scheduler: Any) -> float:
    """When a rate in stairs changes first; 0 for another one."""
    if isinstance(scheduler, StepLR):
        return float(scheduler.step_size)
    return float(min(scheduler.milestones, default=0)) if isinstance(scheduler, MultiStepLR) else 0.0


def _spread(factors: list[float]) -> float:
    return max(factors) - min(factors)


def _look_ahead(scheduler: Any, all_factors: Callable[[int], Iterator[float]], count: int) -> list[float]:
    """The first factors, so many or fewer. A schedule may have no values behind its end."""
    if isinstance(scheduler, LambdaLR):
        return _called(scheduler, scheduler.last_epoch, min(count, _MOST_CALLED))
    found = []
    with contextlib.suppress(PacelineError):
        for factor in all_factors(min(count, _MOST_STEPPED)):
            found.append(factor)
    return found


def _called(scheduler: LambdaLR, first: int, count: int) -> list[float]:
    """The factors of a LambdaLR's first group from this step on, until one is no factor."""
    found: list[float] = []
    with contextlib.suppress(Exception):  # the person's own function
        rate = copy.deepcopy(scheduler.lr_lambdas[0])
        for step in range(first, first + count):
            factor = float(rate(step))
            if not 0 <= factor < math.inf:
                break
            found.append(factor)
    return found


def _length(scheduler: Any) -> float:
    """In whatever it counts; 0 if it has none. That of several is the longest one's."""
    parts = getattr(scheduler, "_schedulers", None) or ()
    known = [getattr(scheduler, name, 0) for name in _LENGTHS] + [_length(part) for part in parts]
    return max(float(length) for length in known if isinstance(length, (int, float)))


def _in_a_row(scheduler: Any) -> float:
    """The length of schedulers that follow each other, as SequentialLR has them."""
    parts, turns = getattr(scheduler, "_schedulers", None), getattr(scheduler, "_milestones", None)
    return turns[-1] + _length(parts[-1]) if parts and turns else 0


def _end_of_fall(factors: list[float]) -> int:
    """The step from which on a rate that fell step by step stays as it is, as at the end of a LambdaLR's; or 0."""
    same = sum(1 for _ in itertools.takewhile(lambda factor: factor == factors[-1], reversed(factors)))
    end = len(factors) - same
    if end < 2 or (same == 1 and factors[-1] != 0):
        return 0
    before, last = factors[end - 2 : end]
    # An exponential one ends with the smallest of numbers.
    return end if before > last > max(1e-12 * max(factors), factors[-1]) else 0


def _falls_until(scheduler: Any, length: int) -> bool:
    """Whether the rate of a LambdaLR falls until this step, and not further."""
    return isinstance(scheduler, LambdaLR) and _end_of_fall(_called(scheduler, max(0, length - 2), 4)) == 2
