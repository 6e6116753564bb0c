"""Notices writes to weights in this process's own memory. Without it, such writes would be lost silently.

On a GPU, and for weights that are copied because PyTorch cannot compute in shared memory, the next step overwrites
what a program writes to a weight. It also overwrites a replaced weight (`p.data = ...`), even a frozen one.
write_guard.py notices writes to shared memory. Writes that PyTorch does not count as changes (`p.data.clamp_()`)
show in a sum of a GPU's binding.

Statistics are sent with a step, and the next batch comes with those of all workers. So a program's write to a
buffer in between is lost too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .errors import PacelineError
from .inventory import PARAMETER, STATISTIC, Entry

State = tuple[int, int]
States = list[State]


class WriteWatch:
    """`may_write`: the program, to the weights."""

    def __init__(self, entries: Sequence[Entry], may_write: bool = False) -> None:
        self._entries = [] if may_write else [entry for entry in entries if not entry.is_buffer]
        # The next batch sets these back: statistics, and frozen weights, which nobody steps.
        frozen = [entry for entry in self._entries if entry.kind != PARAMETER]
        statistics = [entry for entry in entries if entry.kind == STATISTIC and not _is_torchs_own(entry.module)]
        self._kept = frozen + statistics
        self._before: States = []
        self._given: States = []
        self._moving: set[str] = set()  # buffers that a step changed, as a forward pass does
        self._sent: States = []

    def start(self) -> None:
        """The weights are those of a step now."""
        self._before = _states(self._entries)
        self._given = _states(self._kept)

    def computed(self) -> None:
        """The program has computed the step, and nobody else has touched a buffer yet.

        A buffer of the program's own that a forward pass changes is changed again by one after job.step(), to measure
        something. That is no write that the program would miss.
        """
        for entry, before in zip(self._kept, self._given):
            if entry.kind == STATISTIC and _changed(entry, before):
                self._moving.add(entry.name)

    def check(self) -> None:
        """Raises what was written to since."""
        if _states(self._entries) == self._before:
            return
        for entry, before in zip(self._entries, self._before):
            if _changed(entry, before):
                raise written_to(entry.name)

    def sent(self) -> None:
        """The step has statistics and frozen weights as they are now."""
        self._sent = _states(self._kept)

    def check_sent(self) -> None:
        """Raises an error for a tensor that was written to since, before other values replace it."""
        sent, self._sent = self._sent, []
        for entry, before in zip(self._kept, sent):
            if entry.name not in self._moving and _changed(entry, before):
                if not entry.is_buffer:
                    raise written_to(entry.name)
                raise PacelineError(
                    f"the program changed the buffer {entry.name} after job.step(), and the next batch comes with "
                    "the values that the step sent; change it before job.step()"
                )


def written_to(weight: str) -> PacelineError:
    return PacelineError(
        f"the program wrote to the weight {weight}, and only the servers step weights; "
        'leave that to the optimizer, or give join() weights="copy"'
    )


def _is_torchs_own(module: nn.Module) -> bool:
    """Batch norm, spectral norm and the like: a forward pass changes their buffers.

    So a forward pass after job.step(), to measure something, would count as a write. No value that the program
    needs is lost then.
    """
    return isinstance(module, nn.modules.batchnorm._NormBase) or type(module).__module__.startswith("torch.")


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
