"""The program's optimizer is read and never stepped: the servers do that."""

from __future__ import annotations

from typing import Any

import torch

from .errors import PacelineError


class OptimizerGuard:
    def __init__(self, optimizer: Any, scaler: Any, scheduled: bool = False) -> None:
        self._optimizer = optimizer
        self._scaler = scaler
        self._asking = False  # the scaler, whether the gradient is finite
        self._finite = True
        self._saved: list[tuple[str, bool, Any]] = []
        # The program may step a scheduler that the servers know, to print the rate, say.
        self._watched = () if optimizer is None or scheduled else ("lr", "weight_decay", "momentum", "betas")
        self._read = self._numbers()
        if optimizer is not None:
            self._replace("step", self._step())
            self._replace("zero_grad", self._zero_grad(optimizer.zero_grad))
        elif scaler is not None:
            raise PacelineError("scaler= needs optimizer= too: the scaler keeps its state by optimizer")

    def check(self) -> None:
        """Raises where the program set a number that the servers do not hear of."""
        for before, now in zip(self._read, self._numbers()):
            for name, value, other in zip(self._watched, before, now):
                if value != other:
                    raise PacelineError(
                        f"the optimizer's {name} was {value} at join() and is {other} now, and the servers step with "
                        "the first; give join() the scheduler as schedule=, or write [schedule] in the job file"
                    )

    def _numbers(self) -> list[tuple[Any, ...]]:
        if not self._watched:
            return []
        return [tuple(_plain(group.get(name)) for name in self._watched) for group in self._optimizer.param_groups]

    def overflowed(self) -> bool:
        """Undoes the loss scaler's factor; True if the gradient is not finite."""
        if self._scaler is None:
            return False
        try:
            self._scaler.unscale_(self._optimizer)
        except RuntimeError as error:
            if "already been called" not in str(error):  # by the program, before it clipped
                raise
        self._finite = False
        self._asking = True
        try:
            self._scaler.step(self._optimizer)
        finally:
            self._asking = False
        self._scaler.update()
        return not self._finite

    def release(self) -> None:
        """The optimizer is the program's own again."""
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
            with torch.no_grad():
                original(set_to_none=False)

        return zero_grad


def _plain(value: Any) -> Any:
    """A rate may be a tensor, which changes in its place."""
    return float(value) if isinstance(value, torch.Tensor) else value
