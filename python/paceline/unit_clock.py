"""Times of a model's units within a pass of the whole model.

A unit computed as a stage of its own takes longer than it adds to a pass of the model: each stage stands in for the
blocks that it does not compute, and computes again what lies before them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from .cuts import Unit
from .stage_forward import Seams
from .trees import at


class UnitClock:
    """Use forward() around the forward pass and backward() around the backward pass, then ask for times()."""

    def __init__(self, seams: Seams, units: Sequence[Unit], device: torch.device) -> None:
        self._seams = seams
        self._units = units
        self._device = device
        self._forward: dict[int, Any] = {}  # for each unit, the mark at which it begins; the last one is the end
        self._untrained: set[int] = set()  # units whose inputs get no gradient
        self._backward: dict[int, Any] = {}  # for each unit, the mark at which the gradient of its inputs is there

    @contextmanager
    def forward(self) -> Iterator[None]:
        handles = [
            self._seams.blocks[unit.first].module.register_forward_pre_hook(self._hook(number), with_kwargs=True)
            for number, unit in enumerate(self._units)
            if number > 0
        ]
        self._forward[0] = self._mark()
        try:
            yield
        finally:
            self._forward[len(self._units)] = self._mark()
            for handle in handles:  # gradient checkpointing calls blocks again
                handle.remove()

    @contextmanager
    def backward(self) -> Iterator[None]:
        self._backward[len(self._units)] = self._mark()
        yield
        self._backward[0] = self._mark()

    def times(self) -> tuple[list[float], list[float]] | None:
        """Milliseconds of each unit, forward and backward. None if the gradients do not pass from unit to unit."""
        count = len(self._units)
        for number in self._untrained:
            self._backward[number] = self._backward[0]
        if any(number not in self._forward or number not in self._backward for number in range(count + 1)):
            return None
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        forward = [self._ms(self._forward[unit], self._forward[unit + 1]) for unit in range(count)]
        backward = [self._ms(self._backward[unit + 1], self._backward[unit]) for unit in range(count)]
        return (forward, backward) if min(forward + backward) >= 0 else None

    def _hook(self, number: int) -> Any:
        def before(_: Any, args: Any, kwargs: Any) -> None:
            self._forward[number] = self._mark()
            activations = [at((args, kwargs), path) for path in self._seams.paths[self._units[number].first]]
            trained = [one for one in activations if one.requires_grad]
            for one in trained:
                one.register_hook(arrived)
            if not trained:
                self._untrained.add(number)

        def arrived(_: torch.Tensor) -> None:  # the last one of several activations counts
            self._backward[number] = self._mark()

        return before

    def _mark(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _ms(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end) if self._device.type == "cuda" else 1000 * (end - begin))
