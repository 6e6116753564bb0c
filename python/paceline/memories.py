"""Memory that Paceline shares with this process, and where tensors lie in it."""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .channel import Message
from .errors import PacelineError

if TYPE_CHECKING:
    import torch

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Span:
    """Tensors [first, last) lie in one memory, the first one at byte `offset`."""

    first: int
    last: int
    memory: int
    offset: int
    generation: int  # of the memory: its number may be used again


class Memory:
    def __init__(self, number: int, path: str, size: int, write: bool, generation: int) -> None:
        self.number = number
        self.size = size
        self.writable = write
        self.generation = generation
        fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
            self._map = mmap.mmap(fd, size, access=access)
        finally:
            os.close(fd)

    def view(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A flat tensor over this memory, with a storage of its own."""
        import torch

        if count == 0:
            return torch.empty(0, dtype=dtype)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")
            return torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset)


class Memories:
    """The mapped memories, and the layout of the tensors in them."""

    def __init__(self, tensors: int) -> None:
        self._tensors = tensors
        self._mapped: dict[int, Memory] = {}
        self._generation = 0
        self.offsets: list[int] = []
        self.floats = 0

    def lay_out(self, message: Message) -> None:
        offsets = [int(offset) for offset in message["offsets"]]
        if len(offsets) != self._tensors:
            raise PacelineError(f"Paceline lays out {len(offsets)} tensors, but the model has {self._tensors}")
        self.offsets = offsets
        self.floats = int(message["floats"])

    def map(self, message: Message) -> None:
        number = int(message["memory"])
        self._generation += 1
        self._mapped[number] = Memory(
            number, str(message["path"]), int(message["bytes"]), bool(message.get("write")), self._generation
        )

    def unmap(self, message: Message) -> None:
        # The mapping itself goes with the last tensor over it.
        self._mapped.pop(int(message["memory"]), None)

    def memory(self, span: Span) -> Memory:
        return self._mapped[span.memory]

    def numbered(self, number: int) -> Memory:
        return self._mapped[number]

    def has(self, memory: Memory) -> bool:
        return self._mapped.get(memory.number) is memory

    def knows(self, span: Span) -> bool:
        memory = self._mapped.get(span.memory)
        return memory is not None and memory.generation == span.generation

    def end_of(self, tensor: int) -> int:
        """In floats: where the next tensor begins."""
        return self.offsets[tensor + 1] if tensor + 1 < len(self.offsets) else self.floats

    def spans(self, runs: Sequence[Sequence[Any]]) -> tuple[Span, ...]:
        """Runs as the protocol has them, [tensor, memory, offset], as ranges of tensors."""
        if not self.offsets and self._tensors:
            raise PacelineError("Paceline names places before it has sent the layout")
        ordered = sorted((int(tensor), int(memory), int(offset)) for tensor, memory, offset in runs)
        if self._tensors and (not ordered or ordered[0][0] != 0):
            raise PacelineError("Paceline does not say where the first tensor lies")
        spans = []
        for i, (first, memory, offset) in enumerate(ordered):
            last = ordered[i + 1][0] if i + 1 < len(ordered) else self._tensors
            mapped = self._mapped.get(memory)
            if mapped is None:
                raise PacelineError(f"Paceline names memory {memory}, which it has not mapped")
            spans.append(Span(first, last, memory, offset, mapped.generation))
        return tuple(spans)

    def view(self, span: Span, tensor: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        behind = (self.offsets[tensor] - self.offsets[span.first]) * FLOAT
        return self.memory(span).view(span.offset + behind, count, dtype)

    def floats_view(self, span: Span, begin: int, end: int) -> torch.Tensor:
        """Floats [begin, end) of the layout, within a span."""
        import torch

        behind = (begin - self.offsets[span.first]) * FLOAT
        return self.memory(span).view(span.offset + behind, end - begin, torch.float32)
