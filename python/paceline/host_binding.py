"""A model on the CPU, computing in shared memory; or a stage of a model, on any device.

Parameters are views of the weights and gradients are views of the gradient memory wherever PyTorch can
compute in that memory: of the type that the memory has, contiguous, on the CPU. Others are copied in and out.

A stage may compute on another device than the one that the program built the model on, its home. That device then
gets the weights that the stage computes with, and no others. When the job is over, the whole model is at home again.
"""

from __future__ import annotations

from typing import Optional

import torch

from .allocator import return_freed_memory
from .binding import Runs, check_trainable, gather, given_to_program, zero_ranges
from .inventory import CONSTANT, PARAMETER, STATISTIC, Inventory
from .memories import Memories, Span

Views = list[Optional[torch.Tensor]]  # one for each tensor of a span


class HostBinding:
    def __init__(
        self, inventory: Inventory, memories: Memories, copy_weights: bool, device: torch.device | None = None
    ) -> None:
        """device: the device on which a stage computes; None: the one that has the model."""
        self._inventory = inventory
        self._entries = inventory.entries
        self._memories = memories
        self._copy_weights = copy_weights
        self._home = [entry.tensor.device for entry in self._entries]
        self._contiguous = [entry.tensor.is_contiguous() for entry in self._entries]
        self._device = device if device not in self._home else None
        self._devices = list(self._home)  # the device that each entry is to be on
        self._find_in_place()
        self._has_last = False  # the weights are the job's last, so that nobody writes to their memory any more
        self._weight_views: dict[Span, Views] = {}
        self._gradient_views: dict[Span, Views] = {}
        self._zeroed: dict[Span, list[torch.Tensor]] = {}
        self._bound: tuple[Span, ...] = ()
        self._absent: dict[int, tuple[int, ...]] = {}  # entries that have no memory here, with their strides
        self._constants_read = False
        self._gradients: Views = [None] * len(self._entries)

    def _find_in_place(self) -> None:
        self._in_place = [
            entry.dtype == entry.stored and contiguous and device.type == "cpu"
            for entry, contiguous, device in zip(self._entries, self._contiguous, self._devices)
        ]
        self._weights_in_place = [
            here and not self._copy_weights and entry.kind != STATISTIC
            for here, entry in zip(self._in_place, self._entries)
        ]
        for index, entry in enumerate(self._entries):
            if entry.kind == CONSTANT:
                frozen = not entry.is_buffer and self._contiguous[index] and self._devices[index].type == "cpu"
                self._weights_in_place[index] = frozen and not self._copy_weights

    def _move(self, devices: list[torch.device]) -> None:
        """From now on. Buffers move at once, and weights when they are bound."""
        if devices == self._devices:
            return
        for module in self._inventory.model.modules():
            for key, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[key] = buffer.to(devices[0])
        self._devices = list(devices)
        self._find_in_place()
        self._bound, self._constants_read = (), False

    def bind_last(self, weights: Runs) -> None:
        """The job's last weights, at home."""
        self._move(self._home)
        self._bind_all(weights, None)
        self._has_last = True

    def bind(self, weights: Runs, wanted: set[int] | None = None) -> None:
        """wanted: the entries that a stage computes with. Other weights lose their memory. None: all entries."""
        self._has_last = False
        if self._device is not None:
            self._move([self._device] * len(self._entries))
        self._bind_all(weights, wanted)

    def _bind_all(self, weights: Runs, wanted: set[int] | None) -> None:
        spans = self._memories.spans(weights)
        absent: set[int] = set()
        if wanted is not None:
            absent = {index for index, one in enumerate(self._entries) if index not in wanted and not one.is_buffer}
        with torch.no_grad():
            for index in absent:  # first of all: the device may have no room for these beside those that come
                self._let_go(index)
            for span in spans:
                self._bind(span, self._views(self._weight_views, span), span in self._bound, absent)
        if not self._bound:  # memory that the weights had before is free
            return_freed_memory()
            if any(one.type == "cuda" for one in self._devices):
                torch.cuda.empty_cache()
        self._bound = spans
        self._constants_read = True

    def _bind(self, span: Span, views: Views, bound: bool, absent: set[int]) -> None:
        for index, view in zip(range(span.first, span.last), views):
            if view is None or index in absent:
                continue
            came = self._come_back(index)
            if self._weights_in_place[index]:
                tensor = self._entries[index].tensor
                # The program may have replaced it, for example to measure it.
                if not bound or tensor.data_ptr() != view.data_ptr():
                    tensor.data = view
            elif self._entries[index].kind == STATISTIC:
                self._entries[index].way.read(self._entries[index].tensor, view)
            elif came or self._entries[index].kind != CONSTANT or not self._constants_read:
                self._entries[index].tensor.data.copy_(view)

    def _let_go(self, index: int) -> None:
        """One value in place of all of them: not a number, if there is such a value, so that no use is silent."""
        if index not in self._absent:
            entry = self._entries[index]
            strides = entry.tensor.stride()
            floats = entry.dtype.is_floating_point
            # A full device may have no room for this value either; then the entry keeps what it has.
            nothing = torch.full((), float("nan") if floats else 0, dtype=entry.dtype, device=self._devices[index])
            entry.tensor.data = nothing.expand(entry.shape)
            self._absent[index] = strides

    def _come_back(self, index: int) -> bool:
        """True if the entry had no memory, or has it on another device."""
        entry = self._entries[index]
        strides = self._absent.get(index)
        if strides is None and entry.tensor.device != self._devices[index]:
            strides = entry.tensor.stride()
        if strides is not None and not self._weights_in_place[index]:
            entry.tensor.data = torch.empty_strided(
                entry.shape, strides, dtype=entry.dtype, device=self._devices[index]
            )
        self._absent.pop(index, None)  # there was room for it
        return strides is not None

    def before(self, gradients: Runs) -> None:
        for span in self._memories.spans(gradients):
            views = self._views(self._gradient_views, span)
            self._gradients[span.first : span.last] = views
            for zeroed in self._zeroed[span]:
                zeroed.zero_()

    def hand_out(self) -> None:
        for entry, view, in_place in zip(self._entries, self._gradients, self._in_place):
            if entry.kind == PARAMETER:
                entry.tensor.grad = given_to_program(view) if in_place else None

    def finish(self) -> bool:
        self._inventory.check_unchanged()
        check_trainable(self._inventory)
        with torch.no_grad():
            for entry, view in zip(self._entries, self._gradients):
                if view is None:
                    continue
                if entry.kind == PARAMETER:
                    gather(entry.tensor, view)
                    # From now on, changes of gradients by the program are not for the servers.
                    entry.tensor.grad = None
                elif entry.kind == STATISTIC:
                    entry.way.write(entry.tensor, view)
        return False  # the worker reads it as fast

    def shared_at(self, address: int) -> str | None:
        for index, (entry, in_place) in enumerate(zip(self._entries, self._weights_in_place)):
            if in_place and self._bound and index not in self._absent:
                begin = entry.tensor.data_ptr()
                if begin <= address < begin + entry.tensor.numel() * entry.tensor.element_size():
                    return entry.name
        return None

    def forget(self) -> None:
        for cache in (self._weight_views, self._gradient_views, self._zeroed):
            for span in [span for span in cache if not self._memories.knows(span)]:
                cache.pop(span)

    def release(self) -> None:
        spans = self._bound
        if self._absent or self._devices != self._home:
            self._move(self._home)
            with torch.no_grad():
                for span in spans:
                    self._bind(span, self._views(self._weight_views, span), False, set())
        for span in spans:
            for index in range(span.first, span.last):
                if self._weights_in_place[index]:
                    self._entries[index].tensor.data = self._own(span, index)
        for entry in self._entries:
            if entry.kind == PARAMETER:
                entry.tensor.grad = None
        self._bound = ()
        self._weight_views.clear()
        self._gradient_views.clear()
        self._zeroed.clear()
        self._gradients = [None] * len(self._entries)

    def _own(self, span: Span, index: int) -> torch.Tensor:
        """The entry's values in memory that this process may write to."""
        entry = self._entries[index]
        own = self._memories.own_view(span, index, entry.count, entry.dtype) if self._has_last else None
        return entry.tensor.data.clone() if own is None else own.view(entry.shape)

    def _views(self, cache: dict[Span, Views], span: Span) -> Views:
        views = cache.get(span)
        if views is None:
            views = cache[span] = [
                self._view(span, index, cache is self._weight_views) for index in range(span.first, span.last)
            ]
            if cache is self._gradient_views:
                self._zeroed[span] = [
                    self._memories.floats_view(span, begin, end)
                    for begin, end in zero_ranges(self._entries, self._memories, span)
                ]
        return views

    def _view(self, span: Span, index: int, of_weights: bool) -> torch.Tensor | None:
        entry = self._entries[index]
        if entry.kind == CONSTANT and not of_weights:
            return None
        dtype = entry.dtype if entry.kind == CONSTANT else entry.stored
        return self._memories.view(span, index, entry.count, dtype).view(entry.shape)
