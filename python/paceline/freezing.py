"""Parameters that the program freezes after join(): the servers step them on, with a gradient of zero.

Plain PyTorch leaves out a parameter that has no gradient. An optimizer with a memory, or one that lets weights decay,
changes it all the same if its gradient is zero. So the program ends with a line if the two would differ.
"""

from __future__ import annotations

from typing import Any

from .errors import PacelineError
from .inventory import PARAMETER, Inventory
from .optimizer_state import COUNTING

_AGAIN = "end this job before that step, export its weights, and join() again with them and {name} {how}"


class Freezing:
    def __init__(self, inventory: Inventory, optimizer: Any) -> None:
        entries = [entry for entry in inventory.entries if entry.kind == PARAMETER]
        self._names = [entry.name for entry in entries]
        self._parameters = [entry.tensor for entry in entries]
        self._kind = "the job's optimizer" if optimizer is None else type(optimizer).__name__
        groups = [] if optimizer is None else optimizer.param_groups
        group_of = {id(parameter): group for group in groups for parameter in group["params"]}
        of_each = [group_of.get(id(parameter)) for parameter in self._parameters]
        # What a step does with a gradient of zero: it goes on with the last ones, and lets the weight decay.
        self._coasts = [optimizer is None or (group is not None and self._has_memory(group)) for group in of_each]
        self._decays = [group is not None and bool(group.get("weight_decay")) for group in of_each]
        begun = {} if optimizer is None else optimizer.state
        self._trained = [bool(begun.get(parameter)) for parameter in self._parameters]
        self._steps = 0

    def _has_memory(self, group: dict[str, Any]) -> bool:
        return self._kind != "SGD" or bool(group["momentum"])

    def check(self) -> None:
        """After a backward pass: raises an error if plain PyTorch's next step would be another one."""
        for index, parameter in enumerate(self._parameters):
            if parameter.requires_grad:
                if not self._trained[index]:
                    self._unfrozen(index)
                    self._trained[index] = True
            elif self._decays[index] or (self._coasts[index] and self._trained[index]):
                self._refuse(index)
        self._steps += 1

    def _refuse(self, index: int) -> None:
        moves = [word for word, does in (("momentum", self._coasts), ("weight decay", self._decays)) if does[index]]
        name = self._names[index]
        raise PacelineError(
            f"{name} was frozen after join(), and {self._kind} at the servers would still change it by its "
            f"{' and '.join(moves)}, which plain PyTorch does not; {_AGAIN.format(name=name, how='frozen')}, or "
            "train with SGD without momentum and weight_decay"
        )

    def _unfrozen(self, index: int) -> None:
        if self._steps == 0 or self._kind not in COUNTING:
            return
        name = self._names[index]
        raise PacelineError(
            f"{name} was frozen before the first step and wants a gradient since step {self._steps + 1}, and "
            f"{self._kind} at the servers counts one number of steps for all parameters; "
            f"{_AGAIN.format(name=name, how='unfrozen')}, or train with SGD"
        )
