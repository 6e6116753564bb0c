"""What nobody forbids and nobody would see: a write to a weight whose memory is this process's own.

On a GPU, and where weights are copied as PyTorch cannot compute in shared memory, what a program writes to a weight
is gone with the next step. So is what it puts in a weight's place (`p.data = ...`). write_guard.py sees the writes to
shared memory. What goes past PyTorch's count of changes (`p.data.clamp_()`) a GPU's binding sees in a sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .errors import PacelineError
from .inventory import PARAMETER, Entry


class WriteWatch:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = [entry for entry in entries if entry.kind == PARAMETER]
        self._before: list[tuple[int, int]] = []

    def start(self) -> None:
        """The weights are those of a step now."""
        self._before = [_state(entry.tensor) for entry in self._entries]

    def check(self) -> None:
        """Raises what was written to since."""
        for entry, (address, version) in zip(self._entries, self._before):
            now = _state(entry.tensor)
            if now == (address, version):
                continue
            # cuDNN moves the weights of a recurrent module together (flatten_parameters()), and their values stay.
            if now[0] != address and isinstance(entry.module, nn.RNNBase):
                continue
            raise written_to(entry.name)


def written_to(weight: str) -> PacelineError:
    return PacelineError(
        f"the program wrote to the weight {weight}, and only the servers step weights; "
        'leave that to the optimizer, or give join() weights="copy"'
    )


def _state(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor._version
