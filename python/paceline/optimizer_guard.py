"""The program's optimizer is read and never stepped: the servers do that."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable

import torch
from torch import nn

from .errors import PacelineError
from .optimizer_state import keeps_state
from .optimizers import NUMBERS
from .other_optimizers import OtherOptimizers
from .scheduler_steps import FirstSteps, limit_steps


class Numbers:
    """The numbers of an optimizer's groups, as they are now: the servers step with these."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._read = [_numbers(group) for group in optimizer.param_groups]

    def check(self, scheduler: Any, in_evaluate: bool = False) -> None:
        """Raises an error if the program has set another value. scheduler: the one that the servers know, or None.

        in_evaluate: in a process that only measures.
        """
        groups = self._optimizer.param_groups
        rates = _scheduled_rates(scheduler, groups)
        for number, (read, group) in enumerate(zip(self._read, groups)):
            for name, now in _numbers(group).items():
                before = read.get(name)
                # The program may step a scheduler that the servers know, for example to print the rate.
                if now == before or (name == "lr" and rates is not None and now == rates[number]):
                    continue
                was, is_now = _shown(before, now)
                where = "evaluate() runs in a process that trains nothing, so that " if in_evaluate else ""
                raise PacelineError(
                    f"the optimizer's {name} was {was} at join() and is {is_now} now, and {where}the servers step "
                    f"with {_advice(name, scheduler)}"
                )


def _scheduled_rates(scheduler: Any, groups: list[dict[str, Any]]) -> list[Any] | None:
    """The rate of each group, as the scheduler has set it last."""
    if scheduler is None:
        return None
    if _is_torchs_own(scheduler):
        return [_plain(rate) for rate in scheduler.get_last_lr()]
    # A scheduler that is not torch's own may set any value, without saying which.
    return [_plain(group["lr"]) for group in groups]


def _advice(name: str, scheduler: Any) -> str:
    if name != "lr":
        return "the first; set it before join(), and leave it"
    if scheduler is None:
        return (
            "the first; give join() schedule= with any scheduler of torch.optim but ReduceLROnPlateau, such as "
            "LambdaLR, or write [schedule] in the job file"
        )
    return "what the scheduler says; leave the rate to it"


class OptimizerGuard:
    """`scheduler`: the one that the servers know, if there is one. `an_epoch`: they step it once an epoch.

    `length`: the number of its values in the job, if it is known.
    """

    def __init__(
        self,
        optimizer: Any,
        scaler: Any,
        scheduler: Any = None,
        an_epoch: bool = False,
        length: int | None = None,
    ) -> None:
        self._optimizer = optimizer
        self._scaler = scaler
        self._asking = False  # the scaler, whether the gradient is finite
        self._finite = True
        # Around what sets the gradients to zero for the program.
        self._zeroing: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        self._others: OtherOptimizers | None = None
        self._saved: list[tuple[str, bool, Any]] = []
        self._scheduler = scheduler
        self._an_epoch = an_epoch
        self._began_at = _place_of(scheduler)
        self._epoch = 0  # the epoch of the last batch
        self._epochs = 1  # the most that the program may have counted; a batch of an epoch before may come again
        self._first_steps = FirstSteps()
        self._turns = 1  # how often another epoch came, and 1
        self._limit = None if scheduler is None or length is None else limit_steps(scheduler, length)
        groups = [] if optimizer is None else optimizer.param_groups
        self._numbers = None if optimizer is None else Numbers(optimizer)
        self._counts = [len(group["params"]) for group in groups]
        if optimizer is not None:
            _refuse_own_step(optimizer)
            _refuse_hooks(optimizer)
            self._replace("step", self._step())
            self._replace("_opt_called", True)  # a scheduler's step would warn that the optimizer has made none
            self._replace("zero_grad", self._zero_grad(optimizer.zero_grad))
            self._replace("load_state_dict", _refuse_to_load)
            # This one stays after the job: an optimizer that is saved then has no moments either.
            if any(keeps_state(optimizer, group) for group in groups):
                optimizer.state_dict = _without_moments(optimizer.state_dict, self._stands)
        elif scaler is not None:
            raise PacelineError("scaler= needs optimizer= too, by which it keeps its state; give join() optimizer=")

    def begin(
        self, model: nn.Module, zeroing: Callable[[], contextlib.AbstractContextManager[None]], has_peers: bool
    ) -> None:
        """zeroing: goes around what sets the gradients to zero. has_peers: other processes train this model, too."""
        self._zeroing = zeroing
        self._others = OtherOptimizers(model) if has_peers else None

    def check(self, epoch: int = 0) -> None:
        """Raises an error for a value that the servers do not get, or a parameter that they do not train.

        epoch: the job's.
        """
        if self._others is not None:
            self._others.batch_is_over()
        if self._numbers is None:
            return
        self._turns += epoch != self._epoch
        self._epoch = epoch
        self._epochs = max(self._epochs, epoch + 1, self._turns)
        self._check_steps(epoch)
        _refuse_hooks(self._optimizer)
        groups = self._optimizer.param_groups
        counts = [len(group["params"]) for group in groups]
        if counts != self._counts:
            raise PacelineError(
                f"the optimizer had {_in_words(self._counts)} at join() and has {_in_words(counts)} now, and the "
                + (
                    "servers train the first; give the optimizer all of them before join()"
                    if sum(counts) > sum(self._counts)
                    else "servers train all of the first; let this job end before, and begin a second one with its "
                    "exported weights (--set model.weights=FILE) and this optimizer"
                )
            )
        self._numbers.check(self._scheduler)

    def check_evaluation(self) -> None:
        """After evaluate(): raises an error for a value that it has set."""
        if self._numbers is not None:
            self._numbers.check(self._scheduler, in_evaluate=True)

    def _stands(self) -> bool:
        """Whether there is a scheduler that nobody has stepped here."""
        return self._scheduler is not None and _place_of(self._scheduler) == self._began_at

    def _check_steps(self, epoch: int) -> None:
        """The program may step the scheduler as the servers do, and otherwise has other rates than they."""
        place = _place_of(self._scheduler)
        if place is None or self._began_at is None:
            return
        if place != int(place):
            raise PacelineError(
                f"the scheduler was stepped to {place:g}, and the servers take whole steps only; count its "
                'lengths (such as T_0) in steps of the job, write schedule_per="step", '
                "and leave scheduler.step() out of the loop"
            )
        steps = int(place - self._began_at) + (self._limit.left_out if self._limit else 0)
        if self._an_epoch and steps > self._epochs:
            raise PacelineError(
                f"the scheduler was stepped {steps} times by epoch {epoch}, and the servers step it once an epoch; "
                'write schedule_per="step" if it counts steps, and otherwise step it once an epoch or not at all'
            )
        first = self._first_steps.late(epoch, steps) if self._an_epoch else None
        if first is not None:
            raise PacelineError(
                f"the scheduler was not stepped before epoch {first}, and the servers step it at each epoch from the "
                f"first one; let the scheduler itself wait, as SequentialLR(optimizer, [ConstantLR(optimizer, 1.0, "
                f"{first}), ...], milestones=[{first}]) does, and step it once an epoch or not at all"
            )

    def overflowed(self) -> bool:
        """Undoes the loss scaler's factor; True if the gradient is not finite."""
        if self._scaler is None:
            return False
        try:
            self._scaler.unscale_(self._optimizer)
        except RuntimeError as error:
            if "already been called" not in str(error):  # the program has called unscale_() before it clipped
                raise
        self._finite = False
        self._asking = True
        try:
            self._scaler.step(self._optimizer)
        finally:
            self._asking = False
        self._scaler.update()
        return not self._finite

    @property
    def optimizer(self) -> Any:
        return self._optimizer

    @property
    def has_scaler(self) -> bool:
        return self._scaler is not None

    def release(self) -> None:
        """The optimizer is the program's own again."""
        if self._others is not None:
            self._others.close()
        for name, had_own, before in reversed(self._saved):
            if had_own:
                setattr(self._optimizer, name, before)
            else:
                delattr(self._optimizer, name)
        self._saved = []

    def _replace(self, name: str, function: Any) -> None:
        own: dict[str, Any] = vars(self._optimizer)
        self._saved.append((name, name in own, own.get(name)))
        setattr(self._optimizer, name, function)

    def _step(self) -> Any:
        def step(*_: Any, **__: Any) -> None:
            if not self._asking:
                raise PacelineError(
                    "optimizer.step() was called, but the servers step the optimizer; call job.step(loss) instead, "
                    "and give join() scaler= if there is a GradScaler"
                )
            found = getattr(self._optimizer, "found_inf", None)
            self._finite = found is None or not bool(found)

        # Schedulers look for these before they wrap an optimizer's step.
        step._with_counter = True  # type: ignore[attr-defined]
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        return step

    def _zero_grad(self, original: Any) -> Any:
        def zero_grad(set_to_none: bool = False) -> None:
            # In place: a gradient that is gone would be computed elsewhere and copied.
            with self._zeroing(), torch.no_grad():
                original(set_to_none=False)

        return zero_grad


def _refuse_own_step(optimizer: Any) -> None:
    step = vars(optimizer).get("step")  # a scheduler wraps it
    if step is not None and not (hasattr(step, "_wrapped_by_lr_sched") or hasattr(step, "_with_counter")):
        raise PacelineError(
            "the program has replaced the optimizer's step(), which nobody calls, as the servers step; do its work "
            "in the loop, before or behind job.step(loss)"
        )


def _refuse_hooks(optimizer: Any) -> None:
    for when, place in (("pre", "before"), ("post", "behind")):
        if getattr(optimizer, f"_optimizer_step_{when}_hooks", None):
            raise PacelineError(
                f"the optimizer has a hook of its step (register_step_{when}_hook), which nobody calls, as the "
                f"servers step; do its work in the loop, {place} job.step(loss)"
            )


def _refuse_to_load(*_: Any, **__: Any) -> None:
    raise PacelineError(
        "optimizer.load_state_dict() was called after join(), and the servers step with the state that join() got; "
        "load it before join()"
    )


def _without_moments(original: Any, scheduler_stands: Callable[[], bool]) -> Any:
    said = False

    def state_dict(*words: Any, **named: Any) -> Any:
        nonlocal said
        if not said:
            said = True
            place = ", and scheduler.state_dict() has the place of join()" if scheduler_stands() else ""
            print(
                "paceline: optimizer.state_dict() does not have the moments of this job, which the servers keep"
                f"{place}; to train on from this job, go on with its run (--resume), whose checkpoints have them",
                file=sys.stderr,
                flush=True,
            )
        return original(*words, **named)

    return state_dict


def _place_of(scheduler: Any) -> float | None:
    """The steps or epochs that a scheduler has come to; None if it does not say so."""
    place, part = getattr(scheduler, "last_epoch", None), getattr(scheduler, "T_cur", None)
    if isinstance(part, float) and part != int(part):
        place = (place or 0) + part % 1  # CosineAnnealingWarmRestarts: last_epoch is rounded
    return float(place) if isinstance(place, (int, float)) else None


def _is_torchs_own(scheduler: Any) -> bool:
    parts = getattr(scheduler, "_schedulers", ())
    return type(scheduler).__module__.startswith("torch.optim.") and all(_is_torchs_own(part) for part in parts)


def _numbers(group: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(group[name]) for name in ("lr", *NUMBERS) if name in group}


def _shown(before: Any, now: Any) -> tuple[str, str]:
    """0.01 is shown as that, and not with the digits of a rounding."""
    if isinstance(before, float) and isinstance(now, float) and f"{before:g}" != f"{now:g}":
        return f"{before:g}", f"{now:g}"
    return str(before), str(now)


def _in_words(counts: list[int]) -> str:
    each = " and ".join(str(count) for count in counts)
    return f"{len(counts)} group{'s' * (len(counts) != 1)} of {each} parameters"


def _plain(value: Any) -> Any:
    """A rate may be a tensor, which changes in its place; a pair may be a list, as a file has it."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(one) for one in value)
    return float(value) if isinstance(value, torch.Tensor) else value
