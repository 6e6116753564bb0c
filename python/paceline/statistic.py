"""How a statistic becomes the mean over the members of a commit, and how it comes back.

Most statistics are moving averages, and the mean of such is one too. Two kinds are not:

- a counter of batches (`num_batches_tracked`). A commit that is a part of a round goes a part of the way to the
  members' mean, so the mean is no whole number. A worker adds what it has counted to the mean that it was given.
- a singular vector of spectral norm. Its length is 1, and a mean of several is shorter. It gets this length again.
"""

from __future__ import annotations

import torch
from torch import nn


class Way:
    def read(self, tensor: torch.Tensor, mean: torch.Tensor) -> None:
        """The tensor gets the mean of the newest commit."""
        tensor.data.copy_(mean)

    def write(self, tensor: torch.Tensor, to: torch.Tensor) -> None:
        """Writes this member's value."""
        to.copy_(tensor)


class _Counter(Way):
    def __init__(self) -> None:
        self._given: torch.Tensor | None = None

    def read(self, tensor: torch.Tensor, mean: torch.Tensor) -> None:
        self._given = mean.to(tensor.device, copy=True)
        tensor.data.copy_(self._given.round())

    def write(self, tensor: torch.Tensor, to: torch.Tensor) -> None:
        given = self._given
        to.copy_(tensor if given is None else given + (tensor - given.round()))


class _Direction(Way):
    def read(self, tensor: torch.Tensor, mean: torch.Tensor) -> None:
        length = torch.linalg.vector_norm(mean)
        # A vector that has its length already keeps its bits.
        shorter = (length > 0) & ((length - 1).abs() > 1e-5)
        tensor.data.copy_(torch.where(shorter, mean / length, mean))


def way_of(module: nn.Module, key: str, tensor: torch.Tensor) -> Way | None:
    """None for a buffer that is a statistic, or is none, by its values."""
    if key == "num_batches_tracked" and tensor.dtype == torch.int64 and tensor.dim() == 0:
        return _Counter()
    if tensor.is_floating_point() and key in _directions(module):
        return _Direction()
    return None


def _directions(module: nn.Module) -> set[str]:
    """The names of a module's singular vectors: of the parametrization's, and of the older hook's."""
    if type(module).__name__ == "_SpectralNorm":
        return {"_u", "_v"}
    hooks = getattr(module, "_forward_pre_hooks", {}).values()
    names = [hook.name for hook in hooks if type(hook).__name__ == "SpectralNorm"]
    return {f"{name}_{letter}" for name in names for letter in "uv"}
