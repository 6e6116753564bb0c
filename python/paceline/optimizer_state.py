"""The state of the optimizer that join() gets, from steps or load_state_dict(): the servers go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .binding import Runs, write_initial
from .channel import Message
from .errors import PacelineError
from .inventory import PARAMETER, Entry, Inventory
from .memories import Memories

# The floats that the servers keep for each weight, in their order, by the name of the optimizer's class.
_STREAMS = {
    "SGD": ("momentum_buffer",),
    "Adam": ("exp_avg", "exp_avg_sq"),
    "AdamW": ("exp_avg", "exp_avg_sq"),
    "Adamax": ("exp_avg", "exp_inf"),
    "RMSprop": ("momentum_buffer", "square_avg"),
    "Lion": ("exp_avg",),
}
# Their step depends on the number of steps before it.
COUNTING = ("Adam", "AdamW", "Adamax")
_STEP = "step"


@dataclass
class OptimizerState:
    steps: float
    streams: list[dict[int, torch.Tensor]]  # by the parameter's id()
    not_taken: str = ""  # why the servers begin without it

    def message(self) -> dict[str, float]:
        return {"steps": self.steps}


def read_state(optimizer: Any, inventory: Inventory) -> OptimizerState | None:
    """None if there is no state: the optimizer has made no step, or keeps nothing."""
    kept = [state for state in optimizer.state.values() if any(map(_is_something, state.values()))]
    if not kept:
        return None
    streams = _STREAMS.get(type(optimizer).__name__)
    named = {name for state in kept for name, value in state.items() if _is_something(value)}
    unknown = named - {*(streams or ()), _STEP}
    if streams is None or unknown:
        return _without(named if streams is None else unknown, "have no place at the servers")
    entries = [(entry, optimizer.state.get(entry.tensor, {})) for entry in _trained(optimizer, inventory)]
    found: list[dict[int, torch.Tensor]] = []
    for name in streams:
        values = [(entry, state[name]) for entry, state in entries if state.get(name) is not None]
        for entry, value in values:
            if tuple(value.shape) != entry.shape:
                return _without(
                    {name}, f"have the shape {list(value.shape)} for {entry.name}, which has {list(entry.shape)}"
                )
            if not bool(torch.isfinite(value).all()):
                return _without({name}, f"are no finite numbers for {entry.name}")
        found.append({id(entry.tensor): value for entry, value in values})
    steps = [(float(state.get(_STEP, 0)), entry.name) for entry, state in entries]
    fewest, most = min(steps), max(steps)
    if type(optimizer).__name__ in COUNTING and fewest[0] != most[0]:
        return _without(
            named,
            f"are of {fewest[0]:g} steps for {fewest[1]} and of {most[0]:g} for {most[1]}, and the servers count one "
            "number of steps for all",
        )
    return OptimizerState(max(most[0], 1), found)


def write_first(inventory: Inventory, memories: Memories, optimizer: Any, message: Message) -> None:
    """What a run begins with, to the places that the message names: the weights, or the optimizer's state."""
    if message["type"] == "initial":
        write_initial(inventory, memories, message["to"])
    else:
        _write_state(inventory, memories, optimizer, message["to"])


def _write_state(inventory: Inventory, memories: Memories, optimizer: Any, to: Sequence[Runs]) -> None:
    """One list of places for each stream. What the optimizer does not have stays 0."""
    state = read_state(optimizer, inventory)
    if state is None or len(state.streams) != len(to):
        raise PacelineError(f"Paceline asks for {len(to)} parts of the optimizer's state, which it does not have")
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
