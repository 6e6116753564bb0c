"""The state of the optimizer that join() gets, from steps or load_state_dict(): the servers go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .binding import Runs, write_initial
from .channel import Message
from .errors import PacelineError
from .inventory import PARAMETER, Entry, Inventory
from .memories import Memories
from .optimizers import KINDS

_STEP = "step"


def keeps_state(optimizer: Any, group: dict[str, Any]) -> bool:
    """Whether a step depends on the ones before it."""
    return type(optimizer).__name__ != "SGD" or bool(group["momentum"])


@dataclass
class OptimizerState:
    steps: float  # 0: the servers begin without the state, and not_taken says why
    streams: list[dict[int, torch.Tensor]]  # for each part, its values by the parameter's id()
    not_taken: str = ""
    behind: dict[int, float] = field(default_factory=dict)  # the steps that a parameter lacks, by its id()

    def message(self) -> dict[str, float]:
        return {"steps": self.steps}


def read_state(optimizer: Any, inventory: Inventory) -> OptimizerState | None:
    """None if there is no state: the optimizer has made no step, or keeps nothing."""
    kept = [state for state in optimizer.state.values() if any(map(_is_something, state.values()))]
    if not kept:
        return None
    kind = KINDS.get(type(optimizer).__name__)
    streams = kind.state if kind is not None else ()
    named = {name for state in kept for name, value in state.items() if _is_something(value)}
    unknown = named - {*streams, _STEP, *(kind.by_steps if kind is not None else ())}
    if kind is None or not streams or unknown:
        return _without(unknown if streams else named, "have no place at the servers")
    entries = [(entry, optimizer.state.get(entry.tensor, {})) for entry in _trained(optimizer, inventory)]
    if not entries:
        return None
    steps = {id(entry.tensor): float(state.get(_STEP, 0)) for entry, state in entries}
    most = max(steps.values())
    behind = {
        tensor: most - of_tensor for tensor, of_tensor in steps.items() if kind.counts_steps and of_tensor < most
    }
    return OptimizerState(max(most, 1), [_part(name, entries) for name in streams], behind=behind)


def _part(name: str, entries: list[tuple[Entry, dict[str, Any]]]) -> dict[int, torch.Tensor]:
    values = [(entry, state[name]) for entry, state in entries if state.get(name) is not None]
    for entry, value in values:
        what = f"the optimizer's {name} of {entry.name}"
        if tuple(value.shape) != tuple(entry.shape):
            raise PacelineError(
                f"{what} has the shape {list(value.shape)}, and the parameter {list(entry.shape)}; load the state of "
                "an optimizer of this model, with its parameters in the same order"
            )
        if not bool(torch.isfinite(value).all()):
            raise PacelineError(f"{what} is not finite; load the optimizer's state of an earlier checkpoint")
    return {id(entry.tensor): value for entry, value in values}


def write_first(inventory: Inventory, memories: Memories, optimizer: Any, message: Message) -> None:
    """Writes the values that a run begins with to the places that the message names: weights or optimizer state."""
    if message["type"] == "initial":
        write_initial(inventory, memories, message["to"])
    else:
        _write_state(inventory, memories, optimizer, message["to"])


def _write_state(inventory: Inventory, memories: Memories, optimizer: Any, to: Sequence[Runs]) -> None:
    """`to` has the places of each part of the state. A part that a parameter does not have stays 0."""
    state = None if optimizer is None else read_state(optimizer, inventory)
    if state is None or len(state.streams) != len(to):
        raise PacelineError(
            f"the servers' optimizer keeps {len(to)} parts of a state, and the one given to join() has others; leave "
            "[optimizer] out of the job file"
        )
    with torch.no_grad():
        for runs, stream in zip(to, state.streams):
            for span in memories.spans(runs):
                for index in range(span.first, span.last):
                    value = stream.get(id(inventory.entries[index].tensor))
                    if value is not None:
                        memories.write(span, memories.offsets[index], value.detach().float())
    memories.settle()


def _trained(optimizer: Any, inventory: Inventory) -> list[Entry]:
    listed = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return [entry for entry in inventory.entries if entry.kind == PARAMETER and id(entry.tensor) in listed]


def _without(names: set[str], why: str) -> OptimizerState:
    line = (
        f"the optimizer given to join() has a state whose parts {', '.join(sorted(names))} {why}: only the weights "
        "are taken. To go on with them, go on with a run of Paceline (--resume), whose checkpoints have them"
    )
    return OptimizerState(0, [], line)


def _is_something(value: Any) -> bool:
    return bool(value.detach().any()) if isinstance(value, torch.Tensor) else bool(value)
