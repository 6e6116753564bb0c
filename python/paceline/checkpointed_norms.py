"""Batch norm in gradient checkpointing, which calls it again in the backward pass: PyTorch counts each batch twice.

A stage computes other micro-batches between the two calls, and the order of the counts changes their bits. So it
counts a micro-batch as often as that in the forward pass, and forgets what the backward pass counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from .cuts import Cuts
from .inventory import Inventory


class CheckpointedNorms:
    def __init__(self, inventory: Inventory, cuts: Cuts) -> None:
        modules = {inventory.entries[index].module: times for index, times in cuts.again.items()}
        self._times = {module: times for module, times in modules.items() if isinstance(module, _BatchNorm)}

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """For a forward pass."""
        handles = [module.register_forward_hook(self._count_again, with_kwargs=True) for module in self._times]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @torch.no_grad()
    def _count_again(self, module: Any, args: Any, kwargs: Any, _: Any) -> None:
        if module.training:
            for _ in range(self._times[module]):
                type(module).forward(module, *args, **kwargs)  # its own one may be a stage's
