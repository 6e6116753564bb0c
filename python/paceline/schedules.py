"""A torch scheduler as a table of the learning rate's factor over the epochs.

The scheduler is stepped ahead on a copy. The program's own stays as it is.
"""

from __future__ import annotations

import copy
import gc
import inspect
import math
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from .errors import PacelineError, kind_of
from .optimizers import NUMBERS
from .schedule_units import refuse_one_device, refuse_steps

# Words in the name of an argument that is a measurement.
_MEASURE = {"metric", "metrics", "loss", "score", "accuracy", "val"}

Point = tuple[float, float]  # epoch, factor

MOST_POINTS = 2000
# A table has more points, up to a job file's limit, if fewer would miss the schedule by this part of its largest
# factor.
_MOST_MISSED = 0.01
_MOST_OF_FILE = 10_000
_ONE_OF_SEVERAL = "such as ChainedScheduler([...]) of those that step together, or SequentialLR of those in a row"


def read_schedule(
    optimizer: Any,
    scheduler: Any,
    per: str | None,
    epochs: float,
    samples: int,
    bulk: int,
    batch: float | None = None,
) -> dict[str, Any] | None:
    """The `schedule` of a model message; None for one that changes nothing. `bulk`: samples of a full commit.

    `per`: None if the program does not say what the scheduler counts. Then it counts epochs, and a scheduler that
    seems to count steps is refused. If the program says it, one of another length than the job's is taken, as
    somebody may try the beginning of a long job, but not one of exactly the steps of the job on one device.
    `batch`: the samples of a batch of one device, if there are several.
    """
    if per not in (None, "epoch", "step"):
        raise PacelineError(f'schedule_per = {per!r} is neither "epoch" nor "step"')
    if optimizer is None:
        raise PacelineError("schedule= needs optimizer= too; give join() the scheduler's optimizer")
    wanted = _wants(scheduler)
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) or _MEASURE & set(wanted.split("_")):
        raise PacelineError(
            f"{type(scheduler).__name__} looks at what one process measures, and the rate is the whole job's; "
            "give join() a schedule that is known beforehand, such as CosineAnnealingLR"
        )
    if wanted:
        raise PacelineError(
            f"step() of {type(scheduler).__name__} wants {wanted}=, and the servers step as a scheduler of "
            "torch.optim is stepped, without arguments; give join() one of these, such as a LambdaLR over the same "
            "rates"
        )
    if not hasattr(scheduler, "step") or getattr(scheduler, "optimizer", None) is None:
        raise PacelineError(
            f"schedule= takes a scheduler of torch.optim, and not {kind_of(scheduler)}; give join() one"
            + (f", {_ONE_OF_SEVERAL}" if isinstance(scheduler, (list, tuple, dict)) else "")
        )
    if scheduler.optimizer is not optimizer:
        raise PacelineError("the scheduler is another optimizer's; make it of the one that join() gets")
    _refuse_others(scheduler)
    whole_epoch = math.ceil(samples / bulk)
    steps_an_epoch = whole_epoch if per == "step" else 1
    factors = list(_factors(scheduler, length_of(per, epochs, samples, bulk)))
    if per is None:
        alone = epochs * math.ceil(samples / (batch or bulk))
        refuse_steps(scheduler, factors, lambda count: _factors(scheduler, count), epochs, whole_epoch, alone)
    elif per == "step":
        refuse_one_device(scheduler, epochs, samples, batch or bulk, bulk)
    if all(factor == 1 for factor in factors):
        return None
    # A step is a whole bulk of samples, except an epoch's last one.
    part = bulk / samples if per == "step" else 1.0
    points = _slopes(factors, steps_an_epoch, part) if per == "step" else _steps(factors)
    if len(points) > MOST_POINTS:
        points = _slopes(factors, steps_an_epoch, part)
    return {"shape": "table", "table": [list(point) for point in thin_out(points)]}


def length_of(per: str | None, epochs: float, samples: int, bulk: int) -> int:
    """The number of values that a scheduler has in a job; the arguments are those of read_schedule()."""
    steps_an_epoch = math.ceil(samples / bulk) if per == "step" else 1
    return max(1, math.ceil(epochs * steps_an_epoch - 1e-9))


def _refuse_others(scheduler: Any) -> None:
    """Raises an error if the optimizer has another scheduler, whose factor the rates would not have."""
    others = _others_of(scheduler)
    if others and gc.collect() and not (others := _others_of(scheduler)):  # some are garbage
        return
    if others:
        raise PacelineError(
            f"the optimizer has a {others[0]} beside the {type(scheduler).__name__} that join() was given; make one "
            f"scheduler of them, {_ONE_OF_SEVERAL}"
        )


def _others_of(scheduler: Any) -> list[str]:
    """The classes of other schedulers of its optimizer, beside those that it consists of."""
    kind: Any = getattr(torch.optim.lr_scheduler, "LRScheduler", torch.optim.lr_scheduler._LRScheduler)
    own, parts = {id(scheduler)}, [scheduler]
    while parts:
        one = parts.pop()
        if isinstance(one, dict):
            parts.extend(one.values())
        elif isinstance(one, (list, tuple)):
            parts.extend(one)
        elif one is scheduler or (
            hasattr(type(one), "step") and one is not scheduler.optimizer and id(one) not in own
        ):
            own.add(id(one))
            parts.append(getattr(one, "__dict__", {}))
    found = [one for one in gc.get_objects() if issubclass(type(one), kind) and id(one) not in own]
    return [type(one).__name__ for one in found if getattr(one, "optimizer", None) is scheduler.optimizer]


def _wants(scheduler: Any) -> str:
    """The first argument that its step() cannot be called without; empty: there is none."""
    try:
        parameters = inspect.signature(scheduler.step).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return ""
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return next((one.name for one in parameters if one.kind in named and one.default is one.empty), "")


def _factors(scheduler: Any, count: int) -> Iterator[float]:
    """The rate of each step, in terms of the optimizer's own."""
    parameters = [parameter for group in scheduler.optimizer.param_groups for parameter in group["params"]]
    shared = {id(parameter): parameter for parameter in parameters}  # these are not copied
    state = [value for kept in scheduler.optimizer.state.values() for value in kept.values()]
    shared.update({id(value): value for value in state if isinstance(value, torch.Tensor)})
    try:
        ahead = copy.deepcopy(scheduler, shared)
    except Exception as error:
        raise PacelineError(f"the scheduler cannot be copied ({error}); write [schedule] in the job file") from error
    groups = ahead.optimizer.param_groups
    fixed = [_others(group) for group in groups]
    initial = [float(group.get("initial_lr", group["lr"])) for group in groups]  # torch's own schedulers say it
    if not any(initial):
        raise PacelineError(
            "every group of the optimizer has the rate 0, and a schedule is a factor of it; give the optimizer an lr"
        )
    for step in range(count):
        if step > 0:
            _step(ahead, step, count)
        factors = [float(group["lr"]) / rate for group, rate in zip(groups, initial) if rate]
        unlike = any(abs(factor - factors[0]) > 1e-6 * max(1.0, abs(factors[0])) for factor in factors)
        begins = any(not rate and group["lr"] for group, rate in zip(groups, initial))  # has no factor
        if unlike or begins:
            raise PacelineError(
                "the scheduler changes the groups' rates differently; a job has one schedule: change all groups alike"
            )
        for group, first in zip(groups, fixed):
            for name, value in _others(group).items():
                if value != first[name]:
                    raise PacelineError(_moves(name))
        if not math.isfinite(factors[0]) or factors[0] < 0:
            raise PacelineError(
                f"the scheduler's rate for step {step} is no rate: {groups[0]['lr']}; let it give 0 or more"
            )
        yield factors[0]


def _step(scheduler: Any, step: int, count: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no optimizer stepped before it
        try:
            scheduler.step()
        except Exception as error:
            raise PacelineError(
                f"the scheduler ends at step {step} of {count} ({error}); make it as long as the job"
            ) from error


def _others(group: dict[str, Any]) -> dict[str, Any]:
    """The numbers that the servers step with, beside the rate."""
    return {name: group[name] for name in NUMBERS if name in group}


def _moves(name: str) -> str:
    if name in ("momentum", "betas"):
        return "the scheduler changes the momentum too; give it cycle_momentum=False"
    return f"the scheduler changes {name} too, and a job has one; let the scheduler change the rate alone"


def _steps(factors: list[float]) -> list[Point]:
    """A rate for each epoch, with a jump between two that differ."""
    points = [(0.0, factors[0])]
    for epoch in range(1, len(factors)):
        if factors[epoch] != factors[epoch - 1]:
            points += [(float(epoch), factors[epoch - 1]), (float(epoch), factors[epoch])]
    return points


def _slopes(factors: list[float], steps_an_epoch: int, part: float) -> list[Point]:
    """A point for each step, which is this part of an epoch. A change that its neighbours do not share is a jump."""
    points = [(0.0, factors[0])]
    changes = [abs(b - a) for a, b in zip(factors, factors[1:])]
    least = 0.01 * max(abs(factor) for factor in factors)
    for step in range(1, len(factors)):
        epoch = step // steps_an_epoch + step % steps_an_epoch * part
        change = changes[step - 1]
        around = changes[max(0, step - 2) : step - 1] + changes[step : step + 1]
        if change > least and all(change > 4 * other for other in around):
            points.append((epoch, factors[step - 1]))
        points.append((epoch, factors[step]))
    return points


def thin_out(points: list[Point]) -> list[Point]:
    """Keeps at most MOST_POINTS of them, as close to all as possible; more if the schedule's shape needs more."""
    most = max(abs(factor) for _, factor in points)
    tolerance = 1e-9 * most
    closest: list[Point] | None = None
    while tolerance <= _MOST_MISSED * most:
        kept = _within(points, tolerance)
        if len(kept) <= MOST_POINTS:
            return kept
        if closest is None and len(kept) <= _MOST_OF_FILE:
            closest = kept
        tolerance *= 4
    if closest is None:
        raise PacelineError(
            f"the schedule has more jumps and bends than a table of {_MOST_OF_FILE} points can follow; give join() "
            "one with fewer restarts"
        )
    return closest


def _within(points: list[Point], tolerance: float) -> list[Point]:
    """Lines between the kept points pass all others within the tolerance. Jumps are kept."""
    kept = [points[0]]
    anchor = before = points[0]
    low, high = -math.inf, math.inf
    for point in points[1:]:
        width = point[0] - anchor[0]
        if width > 0 and not low <= (point[1] - anchor[1]) / width <= high:
            kept.append(before)
            anchor = before
            low, high = -math.inf, math.inf
            width = point[0] - anchor[0]
        if width == 0 or point[0] == before[0]:  # a jump
            if before is not anchor:
                kept.append(before)
            kept.append(point)
            anchor = point
            low, high = -math.inf, math.inf
        else:
            low = max(low, (point[1] - tolerance - anchor[1]) / width)
            high = min(high, (point[1] + tolerance - anchor[1]) / width)
        before = point
    if before is not anchor:
        kept.append(before)
    return kept
