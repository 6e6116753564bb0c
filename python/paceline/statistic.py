"""How a statistic becomes the mean over the members of a commit, and how it comes back.

Most statistics are moving averages, and the mean of such is one too. Two kinds are not:

- a counter of batches (`num_batches_tracked`). A commit that is a part of a round goes a part of the way to the
  members' mean, so the mean is no whole number. A worker adds what it has counted to the mean that it was given.
- a singular vector of spectral norm. Its length is 1, and a mean of several is shorter. It gets this length again.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn


class Way:
    def read(self, tensor: torch.Tensor, mean: torch.Tensor) -> None:
        """The tensor gets the mean of the newest commit."""
        self.read_each([self], [tensor.data], [mean])

    def write(self, tensor: torch.Tensor, to: torch.Tensor) -> None:
        """Writes this member's value."""
        self.write_each([self], [tensor], [to])

    @staticmethod
    def read_each(ways: list[Any], tensors: list[torch.Tensor], means: list[torch.Tensor]) -> None:
        """The same for many tensors at once: fewer calls, each of which costs the program of a GPU some time."""
        copy_each(tensors, means)

    @staticmethod
    def write_each(ways: list[Any], tensors: list[torch.Tensor], to: list[torch.Tensor]) -> None:
        copy_each(to, tensors)


class _Counter(Way):
    given: torch.Tensor | None = None

    @staticmethod
    def read_each(ways: list[Any], tensors: list[torch.Tensor], means: list[torch.Tensor]) -> None:
        given = torch.stack(means).to(tensors[0].device)
        for way, one in zip(ways, given.unbind()):
            way.given = one
        copy_each(tensors, list(given.round().unbind()))

    @staticmethod
    def write_each(ways: list[Any], tensors: list[torch.Tensor], to: list[torch.Tensor]) -> None:
        counted = torch.stack(tensors)
        if all(way.given is not None for way in ways):
            given = torch.stack([way.given for way in ways])
            counted = given + (counted - given.round())
        copy_each(to, list(counted.unbind()))


class _Direction(Way):
    @staticmethod
    def read_each(ways: list[Any], tensors: list[torch.Tensor], means: list[torch.Tensor]) -> None:
        for tensor, mean in zip(tensors, means):
            length = torch.linalg.vector_norm(mean)
            # A vector that has its length already keeps its bits.
            shorter = (length > 0) & ((length - 1).abs() > 1e-5)
            tensor.copy_(torch.where(shorter, mean / length, mean))


class HasTensor(Protocol):
    way: Way

    @property
    def tensor(self) -> torch.Tensor: ...


class Statistics:
    """Tensors, and their places in a layout's memory. Modules may replace a tensor at any time."""

    def __init__(self) -> None:
        self._kinds: dict[type[Way], tuple[list[HasTensor], list[torch.Tensor]]] = {}

    def add(self, entry: HasTensor, place: torch.Tensor) -> None:
        entries, places = self._kinds.setdefault(type(entry.way), ([], []))
        entries.append(entry)
        places.append(place)

    def read(self) -> None:
        for kind, (entries, places) in self._kinds.items():
            kind.read_each([entry.way for entry in entries], [entry.tensor.data for entry in entries], places)

    def write(self) -> None:
        for kind, (entries, places) in self._kinds.items():
            kind.write_each([entry.way for entry in entries], [entry.tensor for entry in entries], places)


def copy_each(to: list[torch.Tensor], source: list[torch.Tensor]) -> None:
    if to and hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(to, source)
        return
    for tensor, values in zip(to, source):
        tensor.copy_(values)


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
