"""The model's weights in one flat buffer of this process, on the model's device: for bindings that copy weights.

The buffer has the layout's order and keeps its addresses. Parameters of the type that it has for them are views of
it; other parameters and statistics are copied from it. Constants have no room in it.
"""

from __future__ import annotations

from typing import Callable

import torch

from .captures import check_captures
from .inventory import CONSTANT, PARAMETER, STATISTIC, Entry, Inventory
from .memories import FLOAT, Memories, Span
from .statistic import Statistics


class Room:
    """Room for floats [0, end) of a layout. Narrow tensors have a part of their own, which comes first."""

    def __init__(self, narrow: int, end: int, device: torch.device) -> None:
        self._narrow = torch.zeros(narrow, dtype=torch.bfloat16, device=device)
        self._wide = torch.zeros(end - narrow, dtype=torch.float32, device=device)
        self.parts = [part for part in (self._narrow, self._wide) if part.numel() > 0]

    def range(self, begin: int, end: int) -> torch.Tensor:
        """Floats [begin, end), which are all narrow or all not."""
        if begin < self._narrow.numel():
            return self._narrow[begin:end]
        return self._wide[begin - self._narrow.numel() : end - self._narrow.numel()]

    def zero(self) -> None:
        for part in self.parts:
            part.zero_()

    def bits(self) -> torch.Tensor:
        """A number that differs after a write."""
        return sum_of([bits(part) for part in self.parts])


class FlatWeights:
    def __init__(self, inventory: Inventory, memories: Memories, device: torch.device) -> None:
        self._model = inventory.model
        self._entries = inventory.entries
        self._memories = memories
        self._device = device
        self._flat: Room | None = None
        self._bound = False
        # Views of the buffer: of parameters that are views themselves, and of tensors that are copied from it.
        self._views: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        self._copied = Statistics()

    def new_room(self) -> Room:
        """Zeros for everything that changes: parameters and statistics."""
        return Room(self._memories.narrow, self.end_of(STATISTIC), self._device)

    def end_of(self, kind: str) -> int:
        """In floats: the first tensor behind those of this kind, in the order of an inventory."""
        later = {PARAMETER: (STATISTIC, CONSTANT), STATISTIC: (CONSTANT,)}[kind]
        for entry, offset in zip(self._entries, self._memories.offsets):
            if entry.kind in later:
                return offset
        return self._memories.floats

    def range_of(self, span: Span) -> tuple[int, int]:
        """Floats of a span that change."""
        begin = self._memories.offsets[span.first]
        return begin, max(begin, min(self._memories.end_of(span.last - 1), self.end_of(STATISTIC)))

    def bind(self, spans: tuple[Span, ...], fill: Callable[[Span, torch.Tensor], None]) -> None:
        """`fill` writes a span's weights to the floats that it gets."""
        flat = self._room()
        if not self._bound:
            # Before `fill`, which may register the pages of the weights: constants lie on some of these and beyond
            # them, and CUDA refuses a copy of memory that is registered in part.
            self._take_constants(spans)
        for span in spans:
            begin, end = self.range_of(span)
            if begin < end:
                fill(span, flat.range(begin, end))
        self._set_tensors()

    def bind_all(self, fill: Callable[[], None]) -> None:
        """The same at once, by a function that writes the whole buffer. Requires: bind() was called before."""
        assert self._bound
        fill()
        self._set_tensors()

    def board_parts(self) -> list[tuple[int, torch.Tensor]]:
        """The parts of the buffer, and where a memory with a version of the weights has them, in bytes."""
        narrow = self._memories.narrow
        places = {torch.bfloat16: self._memories.floats * FLOAT, torch.float32: narrow * FLOAT}
        return [(places[part.dtype], part) for part in self._room().parts]

    def _room(self) -> Room:
        if self._flat is None:
            self._flat = self.new_room()
        return self._flat

    def _take_constants(self, spans: tuple[Span, ...]) -> None:
        for span in spans:
            for index in range(span.first, span.last):
                entry = self._entries[index]
                if entry.kind == CONSTANT:
                    value = self._memories.view(span, index, entry.count, entry.dtype)
                    entry.tensor.data.copy_(value.view(entry.shape))

    def _set_tensors(self) -> None:
        if not self._bound:
            self._make_views()
            self._bound = True
        for tensor, view, address in self._views:
            if tensor.data_ptr() != address:  # moved since, by an RNN of cuDNN, say
                tensor.data = view
        self._copied.read()

    def _make_views(self) -> None:
        check_captures(self._model, (entry.tensor for entry in self._entries if in_place(entry)))
        flat = self._room()
        self._views, self._copied = [], Statistics()
        for index, entry in enumerate(self._entries):
            if entry.kind == CONSTANT:
                continue
            view = self.part(flat, index)
            if entry.kind == STATISTIC or not in_place(entry):
                self._copied.add(entry, view)
            else:
                entry.tensor.data = view
                self._views.append((entry.tensor, view, view.data_ptr()))

    def part(self, flat: Room, index: int) -> torch.Tensor:
        """A tensor's values in a flat buffer of this layout."""
        entry = self._entries[index]
        begin = self._memories.offsets[index]
        return flat.range(begin, begin + entry.count).view(entry.shape)

    def value(self, index: int) -> torch.Tensor:
        """A tensor's values as the step began with them."""
        assert self._flat is not None
        return self.part(self._flat, index)

    def sum(self) -> torch.Tensor:
        """A number that differs after a write to the weights."""
        assert self._flat is not None
        return self._flat.bits()

    def written_to(self, spans: tuple[Span, ...], fill: Callable[[Span, torch.Tensor], None]) -> str:
        """The name of a weight that is not what it was."""
        assert self._flat is not None
        before = self.new_room()
        for span in spans:
            begin, end = self.range_of(span)
            if begin < end:
                fill(span, before.range(begin, end))
        for index, entry in enumerate(self._entries):
            if entry.kind == PARAMETER and not torch.equal(self.part(self._flat, index), self.part(before, index)):
                return entry.name
        return self._entries[0].name  # the layout's padding, say

    def release(self) -> None:
        """The model gets memory of its own again."""
        for entry in self._entries:
            tensor = entry.tensor
            if entry.kind == PARAMETER:
                tensor.grad = None
                if self._bound and in_place(entry):
                    tensor.data = tensor.data.clone()
        self._flat = None
        self._views, self._copied = [], Statistics()
        self._bound = False


def in_place(entry: Entry) -> bool:
    """Whether PyTorch computes with this tensor, or with its gradient, where Paceline has it."""
    return entry.kind == PARAMETER and entry.dtype == entry.stored and entry.tensor.is_contiguous()


def number(gradients: torch.Tensor) -> torch.Tensor:
    """Their sum, as an integer of the same bits, for is_finite()."""
    return gradients.sum(dtype=torch.float32).view(torch.int32)


def is_finite(bits: int) -> bool:
    """True if the float32 of these bits is finite. A sum of numbers is finite only if all of them are."""
    return bits >> 23 & 0xFF != 0xFF


def bits(part: torch.Tensor) -> torch.Tensor:
    """A sum that differs where a single bit does."""
    whole = torch.int16 if part.dtype == torch.bfloat16 else torch.int32
    return part.view(whole).sum(dtype=torch.int32)


def sum_of(numbers: list[torch.Tensor]) -> torch.Tensor:
    total = numbers[0]
    for number in numbers[1:]:
        total = total + number
    return total
