"""Notices writes to weights in this process's own memory. Without it, such writes would be lost silently.

On a GPU, and for weights that are copied because PyTorch cannot compute in shared memory, the next step overwrites
what a program writes to a weight. It also overwrites a replaced weight (`p.data = ...`), even a frozen one.
write_guard.py notices writes to shared memory. Writes that PyTorch does not count as changes (`p.data.clamp_()`)
show in a sum of a GPU's binding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .errors import PacelineError
from .inventory import Entry

State = tuple[int, int]
States = list[State]


class WriteWatch:
    """`may_write`: the program, to the weights."""

    def __init__(self, entries: Sequence[Entry], may_write: bool = False) -> None:
        self._entries = [] if may_write else [entry for entry in entries if not entry.is_buffer]
        self._before: States = []

    def start(self) -> None:
        """The weights are those of a step now."""
        self._before = _states(self._entries)

    def check(self) -> None:
        """Raises what was written to since."""
        if _states(self._entries) == self._before:
            return
        for entry, before in zip(self._entries, self._before):
            if _changed(entry, before):
                raise written_to(entry.name)


def written_to(weight: str) -> PacelineError:
    return PacelineError(
        f"the program wrote to the weight {weight}, and only the servers step weights; "
        'leave that to the optimizer, or give join() weights="copy" if it may be lost with the next step'
    )


def _changed(entry: Entry, before: State) -> bool:
    now = _state(entry.tensor)
    if now == before:
        return False
    # cuDNN moves the weights of a recurrent module together (flatten_parameters()), and their values stay.
    return now[0] == before[0] or not isinstance(entry.module, nn.RNNBase)


def _states(entries: Sequence[Entry]) -> States:
    # This runs several times a step, and an entry that is asked for its tensor checks the shape. It does so if the
    # tensor is gone, to say that.
    try:
        return [_state(_owned(entry)[entry.key]) for entry in entries]
    except (AttributeError, KeyError):
        return [_state(entry.tensor) for entry in entries]


def _owned(entry: Entry) -> Any:
    return entry.module._buffers if entry.is_buffer else entry.module._parameters


def _state(tensor: torch.Tensor) -> State:
    # A tensor of inference_mode() has no count of changes.
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version
