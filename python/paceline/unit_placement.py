"""Weights on the device that measures them, for as long as they are measured.

A model that is larger than its GPU stays at home, where the program has built it, and its units take turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from .absent_weights import places_of
from .inventory import Inventory


class UnitPlacement:
    def __init__(self, inventory: Inventory, device: torch.device) -> None:
        self._root: nn.Module = inventory.model
        self._weights = {place.number: place.weight for place in places_of(inventory.model, inventory)}
        self._device = device

    @contextmanager
    def placed(self, wanted: set[int] | None) -> Iterator[None]:
        """The weights of these entries are on the device meanwhile, and all buffers; None: all weights.

        Other weights have no values, as in a stage. Raises PyTorch's error (memory_short.py) if there is no room.
        """
        at_home = [
            (number, weight, weight.data) for number, weight in self._weights.items() if weight.device != self._device
        ]
        buffers = [
            (module, key, buffer)
            for module in self._root.modules()
            for key, buffer in module._buffers.items()
            if buffer is not None and buffer.device != self._device
        ]
        try:
            for number, weight, values in at_home:
                weight.data = self._there(values) if wanted is None or number in wanted else self._nothing(values)
            for module, key, buffer in buffers:
                module._buffers[key] = self._there(buffer)
            yield
        finally:
            for _, weight, values in at_home:
                weight.grad = None
                weight.data = values
            for module, key, buffer in buffers:
                module._buffers[key] = buffer

    def _there(self, values: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(values, device=self._device).copy_(values)

    def _nothing(self, values: torch.Tensor) -> torch.Tensor:
        nothing = float("nan") if values.dtype.is_floating_point else 0
        return torch.full((), nothing, dtype=values.dtype, device=self._device).expand(values.shape)
