"""A model on the GPU whose memory has the weights, or that can read them there.

Before a step the newest weights are copied into a flat buffer of this process, so the model's addresses stay, and a
program that writes to its weights harms nobody. Gradients are views of the memory that Paceline names, so
backpropagation writes them where the server reads them. Nothing crosses the host's memory. If a step has words
(step_page.py), the host never waits for the device.

Memory that is not on the model's device (another card's, or a file) is used too, through copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .binding import Ahead, Runs, check_trainable, gather, given_to_program
from .device_memory import Choice
from .flat_weights import FlatWeights, in_place, is_finite, number
from .inventory import PARAMETER, STATISTIC, Inventory
from .memories import Memories, Span
from .statistic import Statistics
from .step_page import Words
from .write_watch import written_to

# A sum over the weights costs a pass, so later steps look for writes less often.
ALWAYS_CHECKED, CHECKED_EVERY = 4, 32


@dataclass
class Slot:
    """Memory for gradients and statistics, or room on the device for what goes to memory elsewhere."""

    parts: list[tuple[Span, torch.Tensor]]  # floats of each span that change
    views: dict[int, torch.Tensor]  # views of the tensors, by their index
    # A parameter, its view, and what the program gets as its gradient.
    gradients: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]
    statistics: Statistics

    def knows(self, memories: Memories) -> bool:
        return all(memories.knows(span) for span, _ in self.parts)


class ResidentBinding:
    def __init__(
        self, inventory: Inventory, memories: Memories, device: torch.device, may_write: bool = False
    ) -> None:
        self._may_write = may_write  # the program, to the weights
        self._inventory = inventory
        self._entries = inventory.entries
        self._memories = memories
        self._device = device
        self._weights = FlatWeights(inventory, memories, device)
        self._spans: tuple[Span, ...] = ()  # spans of the weights
        self._ahead: Ahead | None = None
        self._steps = 0
        self._weights_sum: torch.Tensor | None = None  # at the start of the step, if writes are looked for
        self._choices: dict[tuple[int, ...], Choice | None] = {}  # key: numbers of memories
        self._early: Words | None = None  # words of the step that was bound last, if it was begun early
        self._slots: dict[tuple[Span, ...], Slot] = {}
        self._slot: Slot | None = None
        self._last = Slot([], {}, [], Statistics())  # slot of the step that finished last

    # Weights.

    def bind(self, weights: Runs, ahead: Ahead | None = None) -> None:
        self._spans = self._memories.spans(weights)
        self._ahead, self._early = ahead, None
        with torch.no_grad():
            self._weights.bind(self._spans, self._fetch)

    def bind_early(self, words: Words) -> None:
        """Does what bind() does for a step that may not begin yet, with weights in one of several memories."""
        rows = tuple(words.rows)
        if rows not in self._choices:
            self._choices[rows] = self._memories.choice(rows, self._weights.board_parts())
        choice = self._choices[rows]
        if choice is None:
            words.page.wait_on_host(words.number)
            self.bind(self._memories.runs_of_board(rows[words.page.row_on_host()]))
            return
        self._ahead, self._early = None, words
        with torch.no_grad():
            words.page.wait(words.number)
            self._weights.bind_all(lambda: choice.take(words.page.row()))

    def _fetch(self, span: Span, to: torch.Tensor) -> None:
        begin = self._memories.offsets[span.first]
        end = begin + to.numel()
        if self._ahead is None:
            to.copy_(self._memories.floats_view(span, begin, end))
            return
        # Only parameters move. Two operations that each round once: the bits of paceline/parameters/ps/look_ahead.cc.
        moving = max(0, min(end, self._weights.end_of(PARAMETER)) - begin)
        weights = self._memories.wide_view(span, to.numel())
        direction = self._memories.wide_view(span, moving, int(self._ahead["direction"]))
        narrow = to.dtype != torch.float32
        there = torch.empty(moving, dtype=torch.float32, device=self._device) if narrow else to[:moving]
        torch.mul(direction.to(self._device), float(self._ahead["reach"]), out=there)
        torch.sub(weights[:moving].to(self._device), there, out=there)
        if narrow:
            to[:moving].copy_(there)
        to[moving:].copy_(weights[moving:])

    # Gradients.

    def before(self, gradients: Runs) -> None:
        spans = self._memories.spans(gradients)
        slot = self._slots.get(spans)
        if slot is None:
            slot = self._slots[spans] = self._make_slot(spans)
        self._slot = slot
        for _, part in slot.parts:
            part.zero_()
        looks = not self._may_write and (self._steps < ALWAYS_CHECKED or self._steps % CHECKED_EVERY == 0)
        self._weights_sum = self._weights.sum() if looks else None
        self._steps += 1

    def hand_out(self) -> None:
        assert self._slot is not None
        for parameter, _, given in self._slot.gradients:
            parameter.grad = given

    def _make_slot(self, spans: tuple[Span, ...]) -> Slot:
        slot = Slot([], {}, [], Statistics())
        for span in spans:
            begin, end = self._weights.range_of(span)
            if begin == end:
                continue
            if self._memories.memory(span).near:
                part = self._memories.floats_view(span, begin, end)
            else:
                part = torch.zeros(end - begin, dtype=self._entries[span.first].stored, device=self._device)
            slot.parts.append((span, part))
            for index in range(span.first, span.last):
                entry = self._entries[index]
                if entry.kind in (PARAMETER, STATISTIC):
                    at = self._memories.offsets[index] - begin
                    slot.views[index] = part[at : at + entry.count].view(entry.shape)
        for index, view in slot.views.items():
            entry = self._entries[index]
            if entry.kind == PARAMETER:
                given = given_to_program(view) if in_place(entry) else None
                slot.gradients.append((entry.tensor, view, given))
            else:
                slot.statistics.add(entry, view)
        return slot

    def finish(self) -> bool:
        slot = self._complete()
        with torch.no_grad():
            found = [number(part) for _, part in slot.parts]
            if self._weights_sum is not None:
                found += [self._weights_sum, self._weights.sum()]
            for span, part in slot.parts:
                if not self._memories.memory(span).near:
                    self._memories.write(span, self._memories.offsets[span.first], part)
            numbers = torch.stack(found).tolist()  # waits for all of the above
            if self._weights_sum is not None and numbers.pop() != numbers.pop():
                if self._early is not None:
                    board = self._early.rows[self._early.page.row_on_host()]
                    self._spans = self._memories.spans(self._memories.runs_of_board(board))
                raise written_to(self._weights.written_to(self._spans, self._fetch))
        return all(map(is_finite, numbers))

    @property
    def can_finish_later(self) -> bool:
        """Whether nobody has to wait for the device at this step's end."""
        assert self._slot is not None
        return self._weights_sum is None and all(self._memories.memory(span).near for span, _ in self._slot.parts)

    def finish_later(self, words: Words, skipped: bool) -> None:
        """Does the same as finish() without waiting for the gradient. Its sum is the first of the page's values."""
        slot = self._complete()
        with torch.no_grad():
            if skipped:
                self.contribute_nothing()
            total = torch.zeros((), dtype=torch.float64, device=self._device)
            for _, part in slot.parts:
                total = total + part.sum(dtype=torch.float32)
            words.page.done(words.number, torch.stack([total, *words.values]))

    def _complete(self) -> Slot:
        """Gradients and statistics of the step are where Paceline reads them."""
        if self._weights_sum is None:
            self._inventory.check_known()
        else:
            self._inventory.check_unchanged()
        check_trainable(self._inventory)
        slot, self._slot = self._slot, None
        assert slot is not None
        self._last = slot
        with torch.no_grad():
            for at, (parameter, view, given) in enumerate(slot.gradients):
                moved = given is not None and given.data_ptr() != view.data_ptr()
                if moved or given is None or parameter.grad is not given:
                    gather(parameter, view)
                if moved:
                    slot.gradients[at] = (parameter, view, given_to_program(view))
                parameter.grad = None
            slot.statistics.write()
        return slot

    def not_finite(self) -> str | None:
        """The name of a tensor whose gradient is not finite; None if all are, and only their sum is too large."""
        with torch.no_grad():
            for index, view in self._last.views.items():
                if not bool(torch.isfinite(view).all()):
                    return self._entries[index].name
        return None

    def contribute_nothing(self) -> None:
        """The step is skipped: its gradient is zero, and its statistics are those of the weights."""
        with torch.no_grad():
            for span, part in self._last.parts:
                part.zero_()
                for index in range(span.first, span.last):
                    if self._entries[index].kind == STATISTIC:
                        self._last.views[index].copy_(self._weights.value(index))
                if not self._memories.memory(span).near:
                    self._memories.write(span, self._memories.offsets[span.first], part)

    def shared_at(self, address: int) -> str | None:
        return None

    def forget(self) -> None:
        self._slots = {spans: slot for spans, slot in self._slots.items() if slot.knows(self._memories)}
        self._choices = {}

    def release(self) -> None:
        self._weights.release()
        self._slots, self._choices, self._early = {}, {}, None
        self._slot = self._weights_sum = None
        self._last = Slot([], {}, [], Statistics())
