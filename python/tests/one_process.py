"""A job of one worker within the test's own process: the package's binding, and a server that steps SGD by hand.

It costs a few milliseconds a model, so a test can go through hundreds of them.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from fake_member import ALIGNMENT, SIZES, Memory
from torch import nn

from paceline.binding import write_initial
from paceline.host_binding import HostBinding
from paceline.inventory import CONSTANT, PARAMETER, take_inventory
from paceline.memories import Memories

RATE = 0.05
WEIGHTS, GRADIENTS = 0, 1
EVERYTHING = {number: [[0, number, 0]] for number in (WEIGHTS, GRADIENTS)}


class OneProcess:
    def __init__(self, model: nn.Module) -> None:
        self.inventory = take_inventory(model)
        messages = [entry.message() for entry in self.inventory.entries]
        offsets, at = [], 0
        for entry, message in zip(self.inventory.entries, messages):
            offsets.append(at)
            size = SIZES.get(str(message["dtype"]), 4) if entry.kind == CONSTANT else 4
            at += -(-entry.count * size // (4 * ALIGNMENT)) * ALIGNMENT
        self._offsets = offsets
        self._memories = Memories(len(messages), torch.device("cpu"))
        self._memories.lay_out({"offsets": offsets, "floats": at})
        self._memory = {number: Memory(number, max(4, 4 * at)) for number in EVERYTHING}
        for memory in self._memory.values():
            self._memories.map(memory.message(write=True))
        write_initial(self.inventory, self._memories, EVERYTHING[WEIGHTS])
        self._binding = HostBinding(self.inventory, self._memories, copy_weights=False)

    def step(self, loss_of: Callable[[], torch.Tensor], pull: float = 1.0) -> None:
        """`pull`: how far statistics go to this worker's, as after a commit that is a part of a round."""
        self._binding.bind(EVERYTHING[WEIGHTS])
        self._binding.before(EVERYTHING[GRADIENTS])
        self._binding.hand_out()
        loss_of().backward()
        self._binding.finish()
        for index, entry in enumerate(self.inventory.entries):
            if entry.kind == CONSTANT:
                continue
            value, came = self.value(index), self._of(GRADIENTS, index)
            if entry.kind == PARAMETER:
                value.sub_(RATE * came)
            else:
                value.add_(pull * (came - value))

    def _of(self, number: int, index: int) -> torch.Tensor:
        entry = self.inventory.entries[index]
        begin = self._offsets[index]
        return self._memory[number].floats[begin : begin + entry.count].view(entry.shape)

    def value(self, index: int) -> torch.Tensor:
        return self._of(WEIGHTS, index)

    def evaluator(self) -> None:
        """The model has the newest weights, as an evaluator's does."""
        self._binding.bind(EVERYTHING[WEIGHTS])

    def exported(self) -> dict[str, torch.Tensor]:
        """The tensors of `paceline export`, read back."""
        file: dict[str, Any] = {}
        for index, entry in enumerate(self.inventory.entries):
            if entry.kind == CONSTANT:
                count, size = entry.count, entry.tensor.element_size()
                first = 4 * self._offsets[index]
                raw = bytearray(self._memory[WEIGHTS].map[first : first + count * size])
                file[entry.name] = torch.frombuffer(raw, dtype=entry.dtype).view(entry.shape)
            elif entry.dtype.is_floating_point:
                file[entry.name] = self.value(index).to(entry.dtype, copy=True)
            else:
                file[entry.name] = self.value(index).round().to(entry.dtype)
        for entry in self.inventory.frozen:
            file[entry.name] = entry.tensor.detach().clone()
        for name, of in self.inventory.aliases:
            file[name] = file[of]
        return file

    def close(self) -> None:
        self._binding.release()
        for memory in self._memory.values():
            memory.close()
