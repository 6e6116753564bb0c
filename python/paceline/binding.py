"""The model's tensors and the memory that Paceline names: the common part of both kinds of binding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from .errors import PacelineError
from .inventory import CONSTANT, Entry, Inventory
from .memories import Memories, Span

Runs = Sequence[Sequence[Any]]
Ahead = Mapping[str, Any]  # how far to go along each weight's direction, and where that lies


class Binding(Protocol):
    """An iteration is bind(), before(), hand_out(), the program's forward and backward passes, finish()."""

    def bind(self, weights: Runs) -> None:
        """The model has these weights from now on."""

    def before(self, gradients: Runs) -> None:
        """Gradients are zero, and will go to this memory."""

    def hand_out(self) -> None:
        """Backward passes go there from now on."""

    def finish(self) -> bool:
        """All gradients and statistics are written. Returns True if they are known to be finite."""

    def shared_at(self, address: int) -> str | None:
        """The name of the weight that lies in shared memory there."""

    def forget(self) -> None:
        """Memory was unmapped."""

    def release(self) -> None:
        """The model gets its own memory again, with the current weights."""


def write_initial(inventory: Inventory, memories: Memories, to: Runs) -> None:
    """The values that the model has now, in the form that shared memory has them."""
    with torch.no_grad():
        for span in memories.spans(to):
            for index in range(span.first, span.last):
                entry = inventory.entries[index]
                begin = memories.offsets[index]
                if entry.kind == CONSTANT:
                    memories.write(span, begin, _padded(as_bytes(entry.tensor)))
                else:
                    memories.write(span, begin, entry.tensor.detach().float())
    memories.settle()


def _padded(source: torch.Tensor) -> torch.Tensor:
    """With zeros, to whole floats."""
    return nn.functional.pad(source, (0, -source.numel() % 4))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def zero_ranges(entries: Sequence[Entry], memories: Memories, span: Span) -> list[tuple[int, int]]:
    """Floats of the layout, within a span, that hold gradients and statistics: all but the constants."""
    ranges: list[tuple[int, int]] = []
    for index in range(span.first, span.last):
        entry = entries[index]
        if entry.kind == CONSTANT or entry.count == 0:
            continue
        # With the padding, where initial weights may have left something.
        begin, end = memories.offsets[index], memories.end_of(index)
        if ranges and ranges[-1][1] == begin:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((begin, end))
    return ranges


def check_trainable(inventory: Inventory) -> None:
    """A parameter that was frozen at join() has no gradient in shared memory."""
    for entry in inventory.untrained:
        if entry.tensor.requires_grad:
            raise PacelineError(
                f"{entry.name} was frozen at join() and wants a gradient now; "
                "let this job end before that step, and begin a second one with its exported weights "
                f"(--set model.weights=FILE) and {entry.name} unfrozen before join()"
            )
    for check in inventory.after_backward:
        check()


def dense(gradient: torch.Tensor | None) -> torch.Tensor | None:
    if gradient is not None and gradient.layout != torch.strided:
        return gradient.to_dense()
    return gradient


def _holders(tensor: torch.Tensor) -> int:
    """The number of objects that hold the tensor's memory. 0 if PyTorch does not say it."""
    count: Any = getattr(torch._C, "_storage_Use_Count", None)
    try:
        return 0 if count is None else int(count(tensor.untyped_storage()._cdata))
    except RuntimeError:  # a tensor of a class of its own need not have any
        return 0


def has_own_memory(gradient: torch.Tensor) -> bool:
    """Whether no other tensor has the gradient's memory. False if PyTorch does not say it.

    If views of two tensors are added, autograd has one memory for both gradients: those of two parameters, or those
    of a parameter and of an activation that the backward pass goes on with.
    """
    return 0 < _holders(gradient) <= _holders(torch.empty(0))


def given_to_program(view: torch.Tensor | None) -> torch.Tensor | None:
    """The gradient's memory as another tensor: the view keeps its place if the program writes `p.grad.data = ...`."""
    return None if view is None else view.detach()


def gather(parameter: torch.Tensor, view: torch.Tensor) -> None:
    """The gradient is in `view` from now on, even if the program replaced it."""
    gradient = dense(parameter.grad)
    if gradient is None:
        view.zero_()
    elif gradient.data_ptr() != view.data_ptr() or gradient.stride() != view.stride():
        view.copy_(gradient)
