"""A model on another device than the CPU: weights go up before a step, gradients come down while it computes.

Parameters and gradients are views of two flat buffers on the device, in the layout's order. Weights come up in
one copy a run. Gradients go down in buckets on a side stream while backpropagation goes on; what the program
changes in them afterwards (clipping, say) shows in sums, and goes down once more. The same sums say that a gradient
is finite, and the worker need not read it for that.

PACELINE_DEVICE=stand-in runs the same code with buffers on the CPU, and that is what the tests do.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from dataclasses import dataclass, field
from typing import Any

import torch

from .binding import Runs, check_trainable, gather, given_to_program
from .flat_weights import FlatWeights, Room, bits, in_place, is_finite, number
from .inventory import CONSTANT, PARAMETER, STATISTIC, Entry, Inventory
from .memories import Memories, Memory, Span
from .write_watch import written_to

BUCKET_FLOATS = 4 * 1024 * 1024


@dataclass
class Bucket:
    """Gradients that go down together: floats [begin, end) of the layout."""

    begin: int
    end: int
    tensors: list[int]
    host: torch.Tensor
    fired: set[int] = field(default_factory=set)  # whose gradients have come since it was last sent
    sent: torch.Tensor | None = None  # the sums of what was sent


class DeviceBinding:
    def __init__(
        self, inventory: Inventory, memories: Memories, device: torch.device, may_write: bool = False
    ) -> None:
        self._may_write = may_write  # the program, to the weights
        self._inventory = inventory
        self._entries = inventory.entries
        self._memories = memories
        self._transfers: Transfers = CudaTransfers(device) if device.type == "cuda" else Transfers()
        self._weights = FlatWeights(inventory, memories, device)
        self._gradients: Room | None = None
        self._spans: tuple[Span, ...] = ()  # spans of the weights
        self._weights_sum: torch.Tensor | None = None  # at the start of the step, if writes are looked for
        self._buckets: list[Bucket] = []
        self._cut_for: tuple[Span, ...] = ()
        self._bucket_of: dict[int, Bucket] = {}
        self._views: list[torch.Tensor | None] = []  # views of the gradients
        self._computing = False
        self._hooks: list[Any] = []
        for index, entry in enumerate(self._entries):
            self._hook(index, entry)

    # Weights.

    def bind(self, weights: Runs) -> None:
        spans = self._memories.spans(weights)
        with torch.no_grad():
            self._weights.bind(spans, self._fetch)
        self._spans = spans

    def _fetch(self, span: Span, to: torch.Tensor) -> None:
        begin = self._memories.offsets[span.first]
        source = self._memories.floats_view(span, begin, begin + to.numel())
        self._transfers.register(self._memories.memory(span), source)
        self._transfers.copy(to, source)

    # Gradients.

    def before(self, gradients: Runs) -> None:
        if self._gradients is None:  # not earlier: an evaluator has no step
            self._gradients = self._weights.new_room()
        spans = self._memories.spans(gradients)
        if spans != self._cut_for:
            self._cut(spans)
        self._gradients.zero()
        if not self._may_write:
            self._weights_sum = self._sum_of_weights()
        for bucket in self._buckets:
            bucket.fired.clear()
            bucket.sent = None

    def hand_out(self) -> None:
        for entry, view in zip(self._entries, self._views):
            if entry.kind == PARAMETER:
                entry.tensor.grad = given_to_program(view) if in_place(entry) else None
        self._computing = True

    def _cut(self, spans: tuple[Span, ...]) -> None:
        """Buckets within the runs, of parameters or of statistics, the last parameters first."""
        assert self._gradients is not None
        self._views = [
            None if entry.kind == CONSTANT else self._weights.part(self._gradients, index)
            for index, entry in enumerate(self._entries)
        ]
        self._buckets = []
        for span in reversed(spans):
            begin, end = self._weights.range_of(span)
            if begin < end:
                self._transfers.register(self._memories.memory(span), self._memories.floats_view(span, begin, end))
            tensors: list[int] = []
            for index in range(span.last - 1, span.first - 1, -1):
                kind = self._entries[index].kind
                if tensors and (kind != self._entries[tensors[-1]].kind or self._floats(tensors) >= BUCKET_FLOATS):
                    self._add(span, tensors)
                    tensors = []
                if kind != CONSTANT and self._entries[index].count:
                    tensors.append(index)
            if tensors:
                self._add(span, tensors)
        self._bucket_of = {index: bucket for bucket in self._buckets for index in bucket.tensors}
        self._cut_for = spans

    def _floats(self, tensors: list[int]) -> int:
        # With the padding, where initial weights may have left something.
        return self._memories.end_of(max(tensors)) - self._memories.offsets[min(tensors)]

    def _add(self, span: Span, tensors: list[int]) -> None:
        begin = self._memories.offsets[min(tensors)]
        end = begin + self._floats(tensors)
        self._buckets.append(Bucket(begin, end, tensors, self._memories.floats_view(span, begin, end)))

    def _hook(self, index: int, entry: Entry) -> None:
        register = getattr(entry.tensor, "register_post_accumulate_grad_hook", None)  # since PyTorch 2.1
        if entry.kind == PARAMETER and register is not None:
            self._hooks.append(register(lambda parameter: self._came(index, parameter)))

    def _came(self, index: int, parameter: torch.Tensor) -> None:
        """A gradient was added to, maybe not for the last time."""
        if not self._computing:
            return
        with torch.no_grad():
            self._gather(index, parameter)
            bucket = self._bucket_of.get(index)
            if bucket is not None:
                bucket.fired.add(index)
                if len(bucket.fired) == len(bucket.tensors):
                    bucket.fired.clear()
                    # A graph would copy to the host at each replay, and cannot end with a stream that was not joined.
                    if not self._transfers.captures():
                        with self._transfers.aside():
                            self._send(bucket)

    def _gather(self, index: int, parameter: torch.Tensor) -> None:
        view = self._views[index]
        assert view is not None
        gather(parameter, view)

    def _send(self, bucket: Bucket) -> None:
        # First the sums: what changes after them is found to differ, whether the copy has it or not.
        bucket.sent = self._sums(bucket)
        self._copy(bucket)

    def _sums(self, bucket: Bucket) -> torch.Tensor:
        """Two: one of bits, which sees single ones, and one of numbers, which sees a factor of all of them."""
        assert self._gradients is not None
        part = self._gradients.range(bucket.begin, bucket.end)
        return torch.stack((bits(part), number(part)))

    def _sum_of_weights(self) -> torch.Tensor:
        """Twice, as a bucket has two."""
        total = self._weights.sum()
        return torch.stack((total, total))

    def _copy(self, bucket: Bucket) -> None:
        assert self._gradients is not None
        self._transfers.copy(bucket.host, self._gradients.range(bucket.begin, bucket.end))

    def finish(self) -> bool:
        self._computing = False
        self._inventory.check_unchanged()
        check_trainable(self._inventory)
        with torch.no_grad():
            for index, entry in enumerate(self._entries):
                view = self._views[index]
                if entry.kind == PARAMETER:
                    self._gather(index, entry.tensor)
                    entry.tensor.grad = None
                elif entry.kind == STATISTIC and view is not None:
                    entry.way.write(entry.tensor, view)
            self._transfers.join_aside()
            now = [self._sums(bucket) for bucket in self._buckets]
            before = [bucket.sent if bucket.sent is not None else one for bucket, one in zip(self._buckets, now)]
            for bucket in self._buckets:
                if bucket.sent is None:
                    self._copy(bucket)
            if not now:
                return True
            if self._weights_sum is not None:
                before.append(self._weights_sum)
                now.append(self._sum_of_weights())
            sent, found = torch.stack((torch.stack(before), torch.stack(now))).tolist()  # waits for all of the above
            if self._weights_sum is not None and sent.pop() != found.pop():
                raise written_to(self._weights.written_to(self._spans, self._fetch))
            stale = [bucket for bucket, one, other in zip(self._buckets, sent, found) if one != other]
            for bucket in stale:
                self._copy(bucket)
            if stale:
                self._transfers.wait()
        return all(is_finite(total) for _, total in found)

    def shared_at(self, address: int) -> str | None:
        return None

    def forget(self) -> None:
        self._transfers.forget(self._memories)
        if not all(self._memories.knows(span) for span in self._cut_for):
            self._cut_for = ()
            self._buckets = []
            self._bucket_of = {}

    def release(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._weights.release()
        self._buckets = []
        self._bucket_of = {}
        self._views = []
        self._gradients = self._weights_sum = None
        self._transfers.close()


class Transfers:
    """Copies between the device and shared memory, one after the other."""

    def register(self, memory: Memory, part: torch.Tensor) -> None:
        """Before copies from or to this part of the memory."""

    def forget(self, memories: Memories) -> None:
        pass

    def copy(self, to: torch.Tensor, source: torch.Tensor) -> None:
        to.copy_(source)

    def captures(self) -> bool:
        """Whether what is computed now goes into a graph of the program."""
        return False

    def aside(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def join_aside(self) -> None:
        pass

    def wait(self) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass
class Registered:
    """Pages of shared memory."""

    memory: Memory  # keeps them mapped
    begin: int  # address
    end: int
    known: bool  # to the driver


class CudaTransfers(Transfers):
    """Copies that the device makes by itself, from and to memory that the driver knows."""

    _READ_ONLY = 0x08  # cudaHostRegisterReadOnly

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._registered: list[Registered] = []
        self._warned = False

    def register(self, memory: Memory, part: torch.Tensor) -> None:
        """The pages of this part, and no others: the driver keeps them in memory, and a board has room for many
        versions that nobody has made yet."""
        begin = part.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
        end = -(-(part.data_ptr() + part.numel() * part.element_size()) // mmap.PAGESIZE) * mmap.PAGESIZE
        same = [one for one in self._registered if one.begin < end and begin < one.end]
        if any(one.begin <= begin and end <= one.end for one in same):
            return
        if same:  # the pages become one registration, as a copy may not go over the end of one
            self._side.synchronize()
            self.wait()
        for one in same:
            self._unregister(one)
            begin, end = min(begin, one.begin), max(end, one.end)
        flags = 0 if memory.writable else self._READ_ONLY
        known = int(_driver().cudaHostRegister(begin, end - begin, flags)) == 0
        if not known:
            self._go_on_without()
        self._registered.append(Registered(memory, begin, end, known))

    def _go_on_without(self) -> None:
        """Copies go through memory of the driver's own then: slower, and as right."""
        # The refusal stays the driver's last error, and the program's next kernel would fail with it.
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device=self._device)
        if not self._warned:
            self._warned = True
            print(
                "paceline: the GPU's driver cannot register shared memory, "
                "so copies of weights and gradients take about five times as long",
                file=sys.stderr,
            )

    def forget(self, memories: Memories) -> None:
        for one in [one for one in self._registered if not memories.has(one.memory)]:
            self._unregister(one)

    def _unregister(self, one: Registered) -> None:
        self._registered.remove(one)
        if one.known:
            _driver().cudaHostUnregister(one.begin)

    def copy(self, to: torch.Tensor, source: torch.Tensor) -> None:
        to.copy_(source, non_blocking=True)

    def captures(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def aside(self) -> contextlib.AbstractContextManager[Any]:
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        return torch.cuda.stream(self._side)

    def join_aside(self) -> None:
        torch.cuda.current_stream(self._device).wait_stream(self._side)

    def wait(self) -> None:
        torch.cuda.current_stream(self._device).synchronize()

    def close(self) -> None:
        self.wait()
        for one in list(self._registered):
            self._unregister(one)


def _driver() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]
