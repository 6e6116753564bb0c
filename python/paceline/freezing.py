"""Parameters that the program freezes after join(): the servers step them on, with a gradient of zero.

Plain PyTorch leaves out a parameter that has no gradient. An optimizer with a memory, or one that lets weights decay,
changes it all the same if its gradient is zero. So the program ends with a line if the two would differ.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from .errors import PacelineError
from .inventory import PARAMETER, Inventory
from .optimizers import counts_steps, forgets, moves_on

_AGAIN = (
    "let this job end before that step, and begin a second one with its exported weights (--set model.weights=FILE) "
    "and {name} {how} before join()"
)


# Numbers of a parameter that are kept from join() on.
_KEPT = 256


class Freezing:
    """`epoch`: says the job's, if a process that begins later than the job can see which parameters were trained.

    It then has other weights than at join(). A parameter that was frozen all the time has the same ones.
    """

    def __init__(self, inventory: Inventory, optimizer: Any, epoch: Callable[[], int] | None = None) -> None:
        entries = [entry for entry in inventory.entries if entry.kind == PARAMETER]
        self._names = [entry.name for entry in entries]
        self._parameters = [entry.tensor for entry in entries]
        self._kind = "the job file's optimizer" if optimizer is None else type(optimizer).__name__
        groups = [] if optimizer is None else optimizer.param_groups
        group_of = {id(parameter): group for group in groups for parameter in group["params"]}
        of_each = [group_of.get(id(parameter)) for parameter in self._parameters]
        # With a gradient of zero, a step may still move the weight by the optimizer's state, or by decay.
        self._moves = [optimizer is None or (group is not None and moves_on(optimizer, group)) for group in of_each]
        self._forgets = [group is not None and forgets(optimizer) for group in of_each]
        self._decays = [group is not None and bool(group.get("weight_decay")) for group in of_each]
        begun = {} if optimizer is None else optimizer.state
        self._missed = [False] * len(entries)  # a step since it was trained
        self._trained = [bool(begun.get(parameter)) for parameter in self._parameters]
        self._steps = 0
        self._epoch = epoch
        self._at_join = [] if epoch is None else [_some_of(parameter) for parameter in self._parameters]

    def check(self) -> None:
        """After a backward pass: raises an error if plain PyTorch's next step would be another one."""
        if self._steps == 0 and self._epoch is not None and self._epoch() > 0:
            self._look_at_frozen()
        # Gradients are looked at only if it matters: a GPU has to be waited for.
        frozen = [index for index, parameter in enumerate(self._parameters) if not parameter.requires_grad]
        trained = _with_gradient({index: self._parameters[index] for index in frozen if self._matters(index)})
        for index, parameter in enumerate(self._parameters):
            if parameter.requires_grad or index in trained:
                if not self._trained[index]:
                    self._check_unfrozen(index)
                    self._trained[index] = True
                elif self._missed[index]:
                    self._refuse_again(index)
            elif self._differs(index):
                self._refuse(index)
            else:
                self._missed[index] = self._trained[index] and self._forgets[index]
        self._steps += 1

    def _differs(self, index: int) -> bool:
        """Whether a step with a gradient of zero moves the weight."""
        return self._decays[index] or (self._moves[index] and self._trained[index])

    def _matters(self, index: int) -> bool:
        """Whether it makes a difference that a frozen parameter has a gradient from before."""
        return self._differs(index) or self._steps == 0 or (self._forgets[index] and not self._moves[index])

    def _look_at_frozen(self) -> None:
        """In a resumed run, or a worker that joins late, a parameter may have been trained before it was frozen."""
        for index, (parameter, before) in enumerate(zip(self._parameters, self._at_join)):
            if not parameter.requires_grad and not torch.equal(_some_of(parameter), before):
                self._trained[index] = True

    def _refuse(self, index: int) -> None:
        moves = [
            ("its moments", self._moves[index] and self._trained[index]),
            ("weight decay", self._decays[index]),
        ]
        name = self._names[index]
        raise PacelineError(
            f"{name} was frozen after join(), and {self._kind} at the servers would go on with "
            f"{' and '.join(word for word, does in moves if does)}, which plain PyTorch does not; "
            f"{_AGAIN.format(name=name, how='frozen')}, or give join() optimizer=SGD without momentum "
            "and weight_decay"
        )

    def _refuse_again(self, index: int) -> None:
        name = self._names[index]
        raise PacelineError(
            f"{name} was frozen after join() and wants a gradient again since step {self._steps + 1}, and "
            f"{self._kind} at the servers has gone on with its moments meanwhile, which plain PyTorch does not; "
            f"{_AGAIN.format(name=name, how='unfrozen')}, or give join() optimizer=SGD without momentum"
        )

    def _check_unfrozen(self, index: int) -> None:
        if self._steps == 0 or not counts_steps(self._kind):
            return
        name = self._names[index]
        raise PacelineError(
            f"{name} was frozen before the first step and wants a gradient since step {self._steps + 1}, and "
            f"{self._kind} at the servers counts one number of steps for all parameters; "
            f"{_AGAIN.format(name=name, how='unfrozen')}, or give join() optimizer=SGD"
        )


def _some_of(parameter: torch.Tensor) -> torch.Tensor:
    flat = parameter.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _KEPT)].clone()


def _with_gradient(parameters: dict[int, torch.Tensor]) -> set[int]:
    """The numbers of those that have a gradient, found by waiting for the device once.

    They have it from before they were frozen: a program may freeze one part of a model for the backward pass of
    another one.
    """
    given = {number: one.grad for number, one in parameters.items() if one.grad is not None}
    if not given:
        return set()
    device = next(iter(given.values())).device
    found = torch.stack([gradient.any().to(device) for gradient in given.values()]).tolist()
    return {number for number, has in zip(given, found) if has}
