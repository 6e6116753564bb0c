"""A batch that is computed in parts, with its gradient added up."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .binding import dense
from .inventory import PARAMETER, Inventory

Part = tuple[int, ...]


def cut(samples: Part, most: int | None) -> list[Part]:
    size = most or len(samples) or 1
    return [samples[begin : begin + size] for begin in range(0, len(samples), size)]


class MicroBatches:
    """The parts of one batch, one after the other: their measurements, and their gradients."""

    def __init__(self, inventory: Inventory, parts: Sequence[Part]) -> None:
        self.parts = parts
        self._samples = sum(len(part) for part in parts)
        self._inventory = inventory
        self._now = 0
        self._sums: list[torch.Tensor | None] = []
        self.loss = 0.0
        self.metrics: dict[str, float] = {}
        self._known: dict[str, float] = {}  # the share of the samples that each metric is of
        self.skipped = False  # any part of it

    def start(self, part: int) -> None:
        self._now = part

    @property
    def is_last(self) -> bool:
        return self._now + 1 == len(self.parts)

    @property
    def _share(self) -> float:
        return len(self.parts[self._now]) / self._samples

    def measured(self, loss: float, metrics: dict[str, float]) -> None:
        """Means over the part in hand. A metric is the mean over those parts that have it."""
        if len(self.parts) == 1:
            self.loss, self.metrics = loss, metrics
            return
        self.loss += self._share * loss
        for name, value in metrics.items():
            before = self._known.get(name, 0.0)
            self._known[name] = before + self._share
            self.metrics[name] = (before * self.metrics.get(name, 0.0) + self._share * value) / self._known[name]

    @torch.no_grad()
    def collect(self) -> None:
        """Puts the part's gradient aside; the last one's becomes the batch's."""
        if len(self.parts) == 1:
            return
        parameters = [entry.tensor for entry in self._inventory.entries if entry.kind == PARAMETER]
        self._sums = self._sums or [None] * len(parameters)
        for index, parameter in enumerate(parameters):
            gradient, before = dense(parameter.grad), self._sums[index]
            if self.is_last:
                if gradient is None:
                    parameter.grad = before
                else:
                    parameter.grad = gradient.detach()
                    parameter.grad.mul_(self._share)
                    if before is not None:
                        parameter.grad.add_(before)
            elif gradient is not None:
                part = gradient.detach() * self._share
                self._sums[index] = part if before is None else before.add_(part)
                parameter.grad = gradient.detach().zero_()
