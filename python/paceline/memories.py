"""Memory that Paceline shares with this process, and where tensors lie in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from .channel import Message
from .devices import is_stand_in
from .errors import PacelineError
from .file_memory import FileMemory

if TYPE_CHECKING:
    import torch

    from .device_memory import Choice, Rows
    from .step_page import StepPage

FLOAT = 4  # bytes

# Kinds of memory in a message.
FILE = "file"
CUDA = "cuda"


@dataclass(frozen=True)
class Span:
    """Tensors [first, last) lie in one memory, the first one at byte `offset`."""

    first: int
    last: int
    memory: int
    offset: int
    generation: int  # generation of the memory: its number may be used again


class Memory(Protocol):
    """Memory that another process made: a file in the host's memory, or memory of a GPU (device_memory.py)."""

    number: int
    size: int  # bytes
    writable: bool
    generation: int
    on_card: bool  # a GPU's memory
    near: bool  # to the model's device: a view is the memory itself, and the device computes in it

    def view(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A flat tensor over this memory; a copy of it in the host's memory if it is a GPU's and not near."""

    def write(self, offset: int, source: torch.Tensor) -> None:
        """Writes the tensor's values, row by row."""


class Memories:
    """The mapped memories, and the layout of the tensors in them."""

    def __init__(self, tensors: int, device: torch.device) -> None:
        self._tensors = tensors
        self._device = device  # the model's
        self._mapped: dict[int, Memory] = {}
        self._generation = 0
        self._pages: dict[FileMemory, StepPage] = {}
        self._rows: dict[tuple[int, int], Rows] = {}  # key: card and size
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
        write = bool(message.get("write"))
        kind = message.get("kind", FILE)
        self._generation += 1
        if kind == CUDA:
            from .device_memory import CardMemory

            self._mapped[number] = CardMemory(number, message, self._device, write, self._generation, self._rows)
        elif kind == FILE:
            near = self._device.type == "cpu" and not is_stand_in()
            path, size = str(message["path"]), int(message["bytes"])
            self._mapped[number] = FileMemory(number, path, size, write, self._generation, near)
        else:
            raise PacelineError(f"Paceline shares memory of the kind {kind!r}, which this package does not know")

    def unmap(self, message: Message) -> None:
        # The mapping itself goes with the last tensor over it.
        memory = self._mapped.pop(int(message["memory"]), None)
        if isinstance(memory, FileMemory):
            self._pages.pop(memory, None)

    def memory(self, span: Span) -> Memory:
        return self._mapped[span.memory]

    def on_cards(self, runs: Sequence[Sequence[Any]]) -> bool:
        """Whether any of the runs lies in a GPU's memory."""
        memories = [self._mapped.get(int(memory)) for _, memory, _ in runs]
        return any(memory is not None and memory.on_card for memory in memories)

    def settle(self) -> None:
        """Everything that was written is there for other processes, too."""
        import torch

        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def page(self, number: int) -> StepPage:
        """The page that lies at the start of a file's memory."""
        from .step_page import StepPage

        memory = self._mapped.get(number)
        if not isinstance(memory, FileMemory):
            raise PacelineError(f"Paceline names the page {number}, which it has not mapped")
        if memory not in self._pages:
            self._pages[memory] = StepPage(memory, self._device)
        return self._pages[memory]

    def choice(self, numbers: Sequence[int], floats: int) -> Choice | None:
        """Among these memories. None if the device cannot choose among them."""
        from .device_memory import CardMemory, choice

        memories = [self._mapped.get(number) for number in numbers]
        cards = [memory for memory in memories if isinstance(memory, CardMemory)]
        return choice(cards, floats, self._device) if len(cards) == len(memories) else None

    def whole(self, number: int) -> tuple[Span, ...]:
        """All tensors, from the start of one memory on."""
        return self.spans([[0, number, 0]])

    def file(self, number: int) -> FileMemory:
        memory = self._mapped[number]
        assert isinstance(memory, FileMemory)
        return memory

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
        return self.memory(span).view(self._place(span, self.offsets[tensor]), count, dtype)

    def own_view(self, span: Span, tensor: int, count: int, dtype: torch.dtype) -> torch.Tensor | None:
        """A view that this process may write to, and nobody sees what it writes. None for memory of another kind."""
        memory = self.memory(span)
        if not isinstance(memory, FileMemory) or memory.writable:
            return None
        return memory.own_view(self._place(span, self.offsets[tensor]), count, dtype)

    def floats_view(self, span: Span, begin: int, end: int, behind: int = 0) -> torch.Tensor:
        """Floats [begin, end) of the layout, within a span; or the floats that lie `behind` bytes behind these."""
        import torch

        return self.memory(span).view(self._place(span, begin) + behind, end - begin, torch.float32)

    def write(self, span: Span, begin: int, source: torch.Tensor) -> None:
        """Writes from float `begin` of the layout on, within a span."""
        self.memory(span).write(self._place(span, begin), source)

    def _place(self, span: Span, begin: int) -> int:
        return span.offset + (begin - self.offsets[span.first]) * FLOAT
