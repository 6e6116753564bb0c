"""A batch that is computed in parts, with its gradient added up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from .binding import dense
from .errors import PacelineError
from .inventory import PARAMETER, Inventory

Part = tuple[int, ...]


def cut(samples: Part, most: int | None) -> list[Part]:
    """The last part has the rest. If that is one sample, on which batch norm cannot compute, it has one more.

    Paceline cuts a batch of stages in the same way (computing/engine/micro_batches.h).
    """
    size = most or len(samples) or 1
    edges = [*range(0, len(samples), size), len(samples)]
    if len(samples) > size > 2 and len(samples) % size == 1:
        edges[-2] -= 1
    return [samples[begin:end] for begin, end in zip(edges, edges[1:])]


def scaled_at_end(parts: Sequence[Part], dtypes: Sequence[torch.dtype]) -> bool:
    """Whether shares change no bit of a gradient but the exponent: sums may get them at the end, in one pass."""
    equal = len({len(part) for part in parts}) == 1
    # Numbers of 16 bits without an exponent of 8 may overflow.
    return equal and len(parts) & (len(parts) - 1) == 0 and torch.float16 not in dtypes


@dataclass
class LaterMean:
    """The mean of a metric over the parts in which it is finite, on its device. It is NaN if no part has it."""

    sum: float | torch.Tensor
    share: float | torch.Tensor  # the samples of these parts, as a part of all

    def add(self, share: float, value: float | torch.Tensor) -> None:
        if isinstance(value, torch.Tensor):
            self.share = self.share + share * value.isfinite().double()
            value = value.nan_to_num(0.0, 0.0, 0.0)
        else:
            self.share = self.share + share
        self.sum = self.sum + share * value

    @property
    def mean(self) -> float | torch.Tensor:
        return self.sum / self.share


class MicroBatches:
    """The parts of one batch, one after the other: their measurements, and their gradients.

    A part counts as much as its samples, or as the weight that the program gives it.
    """

    def __init__(self, inventory: Inventory, parts: Sequence[Part]) -> None:
        self.parts = parts
        self._samples = sum(len(part) for part in parts)
        self._inventory = inventory
        self._now = 0
        self._sums: list[torch.Tensor | None] = []
        self.takes_gradients = False  # from their parameters, with their memory
        self._part_weight: float | None = None  # weight of the part in hand
        self._scaled_at_end: bool | None = None  # the first part decides it
        self._counted = 0  # parts that were not skipped
        self.loss: float | torch.Tensor = 0.0  # a tensor if nobody has waited for it
        self.metrics: dict[str, float | torch.Tensor] = {}
        self.weight: float | None = None  # sum over the parts so far; None: they count as much as their samples
        self._known: dict[str, float] = {}  # the share of the samples that each metric is of
        self._later: dict[str, LaterMean] = {}  # metrics that nobody has waited for
        self.skipped = False  # any part of it

    def start(self, part: int) -> None:
        self._now = part

    @property
    def is_last(self) -> bool:
        return self._now + 1 == len(self.parts)

    @property
    def _share(self) -> float:
        """The share of the part in hand. With weights, the sums are divided by all of them at the end."""
        return len(self.parts[self._now]) / self._samples if self._part_weight is None else self._part_weight

    def nothing(self) -> None:
        """The part in hand has no sample."""
        self.weight = self.weight or 0.0
        self._part_weight = 0.0
        if self.is_last and self.weight == 0:
            self.skipped = True
        self._weighed()
        self.collect()

    def measured(
        self,
        loss: float | torch.Tensor,
        metrics: Mapping[str, float | torch.Tensor],
        weight: float | None = None,
        skipped: bool = False,
    ) -> None:
        """Means over the part in hand. A metric is the mean over those parts that have it."""
        self._weigh(weight, skipped)
        if weight == 0 and not math.isfinite(loss):  # a mean of nothing
            loss = 0.0
        if len(self.parts) == 1:
            self.loss, self.metrics = loss, dict(metrics)
            return
        self.loss += self._share * loss
        for name, value in metrics.items():
            self._add(name, value)
        self._weighed()

    def _weighed(self) -> None:
        """The sum of the losses becomes their mean."""
        if self.is_last and self.weight is not None and not self.skipped:
            self.loss /= self.weight or 1.0

    def _add(self, name: str, value: float | torch.Tensor) -> None:
        before = self._known.get(name, 0.0)
        if isinstance(value, torch.Tensor) or name in self._later:
            if name not in self._later:
                self._later[name] = LaterMean(before * self.metrics.get(name, 0.0), before)
            self._later[name].add(self._share, value)
            self.metrics[name] = self._later[name].mean
            return
        self._known[name] = before + self._share
        if self._known[name] > 0:
            self.metrics[name] = (before * self.metrics.get(name, 0.0) + self._share * value) / self._known[name]

    def _weigh(self, weight: float | None, skipped: bool) -> None:
        self._part_weight = weight
        self.skipped = self.skipped or skipped
        if skipped:
            return
        if self._counted > 0 and (weight is None) != (self.weight is None):
            raise PacelineError(
                "some parts of this batch have a weight and others have none; give job.step() weight= for each part"
            )
        self._counted += 1
        if weight is not None:
            self.weight = (self.weight or 0.0) + weight

    @torch.no_grad()
    def collect(self) -> None:
        """Puts the part's gradient aside; the last one's becomes the batch's."""
        if self._part_weight == 0:
            self._count_for_nothing()
        if len(self.parts) == 1:
            return
        parameters = self._parameters()
        self._sums = self._sums or [None] * len(parameters)
        self._separate(parameters)
        if self.takes_gradients:
            self._collect_taken(parameters)
        else:
            self._collect_copied(parameters)

    @staticmethod
    def _separate(parameters: list[torch.Tensor]) -> None:
        """Gives each gradient memory of its own: autograd has one for two parameters whose views are added."""
        known: set[int] = set()
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is not None and gradient.layout == torch.strided and gradient.numel() > 0:
                if gradient.data_ptr() in known:
                    gradient = parameter.grad = gradient.clone()
                known.add(gradient.data_ptr())

    def _collect_taken(self, parameters: list[torch.Tensor]) -> None:
        """The first part's memory gets the sum: it may be the place where the servers look for the gradient."""
        if self._scaled_at_end is None:
            equal = scaled_at_end(self.parts, [one.dtype for one in parameters])
            self._scaled_at_end = equal and self._part_weight is None
        for index, parameter in enumerate(parameters):
            gradient, whole = dense(parameter.grad), self._sums[index]
            if gradient is not None:
                part = gradient.detach()
                if not self._scaled_at_end:
                    part.mul_(self._share)
                whole = part if whole is None else whole.add_(part)
            self._sums[index] = whole
            parameter.grad = whole if self.is_last else None
            if self.is_last and whole is not None:
                if self._scaled_at_end:
                    whole.mul_(len(self.parts[self._now]) / self._samples)
                elif self.weight:
                    whole.div_(self.weight)

    def _collect_copied(self, parameters: list[torch.Tensor]) -> None:
        """Gradients keep their memory, as others look into it after each part."""
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
                if parameter.grad is not None and self.weight:
                    parameter.grad.div_(self.weight)
            elif gradient is not None:
                part = gradient.detach() * self._share
                self._sums[index] = part if before is None else before.add_(part)
                parameter.grad = gradient.detach().zero_()

    def _count_for_nothing(self) -> None:
        """A mean of nothing may be NaN, and so may its gradient."""
        for parameter in self._parameters():
            if parameter.grad is not None:
                parameter.grad.detach().zero_()

    def _parameters(self) -> list[torch.Tensor]:
        return [entry.tensor for entry in self._inventory.entries if entry.kind == PARAMETER]
