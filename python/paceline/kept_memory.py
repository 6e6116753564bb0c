"""The memory that autograd keeps from a forward pass to its backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .stubs import Stub


class KeptMemory:
    """Counts it. Each storage counts once, however many operations keep a view of it; weights and buffers do not."""

    def __init__(self, model: nn.Module) -> None:
        self._known = {_storage_of(one)[0] for one in [*model.parameters(), *model.buffers()]}
        self._kept: dict[Any, int] = {}

    def counting(self) -> torch.autograd.graph.saved_tensors_hooks:
        """For the forward pass."""
        return torch.autograd.graph.saved_tensors_hooks(self.keep, lambda tensor: tensor)

    @property
    def bytes(self) -> int:
        return sum(self._kept.values())

    def leave_out(self, tensor: torch.Tensor) -> None:
        """Somebody else counts its storage."""
        self._kept.pop(_storage_of(tensor)[0], None)

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """For the hooks of a pass that counts."""
        if not isinstance(tensor, Stub):  # checkpoint() keeps one that has no memory
            place, size = _storage_of(tensor)
            if place not in self._known:
                self._kept[place] = size
        return tensor


def _storage_of(tensor: torch.Tensor) -> tuple[Any, int]:
    """The storage of a tensor, which lives as long as autograd keeps it, and its bytes."""
    try:
        storage = tensor.untyped_storage()
        # On the meta device all addresses are 0.
        return storage._cdata, storage.nbytes()
    except (RuntimeError, NotImplementedError, AttributeError):  # sparse, or of a class of its own
        return ("tensor", id(tensor)), tensor.numel() * tensor.element_size()
