"""Mistakes of a loop that would train to wrong weights silently. They show in a worker's first batches."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import Any

import torch

from .binding import dense
from .captures import IN_LOOP
from .errors import PacelineError
from .inventory import PARAMETER, Inventory

_MOST_WITHOUT_GRADIENT = 3


class FirstBatches:
    """`has_scaler`: join() was given a GradScaler."""

    def __init__(self, inventory: Inventory, has_scaler: bool) -> None:
        entries = [entry for entry in inventory.entries if entry.kind == PARAMETER]
        self._names = [entry.name for entry in entries]
        self._parameters = [entry.tensor for entry in entries]
        self._has_scaler = has_scaler
        self._looking = True
        self._weighted: bool | None = None  # whether the batches before had a weight
        self._without_gradient = 0  # batches
        self._before: list[Any] = []
        self._thrown_away: set[int] = set()  # parameters whose gradient of this part the program has set to zero

    def start(self) -> None:
        """To be called before the program computes a part of a batch."""
        self._thrown_away.clear()
        self._look()

    def _look(self) -> None:
        if self._looking:
            self._before = self._states()

    @contextlib.contextmanager
    def zeroing(self) -> Iterator[None]:
        """Around what sets the gradients to zero for the program."""
        if self._looking:
            self._thrown_away.update(index for index in self._written() if self._is_not_zero(index))
        yield
        self._look()

    def computed(self, weighted: bool) -> None:
        """The program says that its gradients are to be used. Raises an error for a mistake.

        weighted: whether it gave a weight.
        """
        if self._weighted not in (None, weighted):
            raise PacelineError(
                f"job.step() was given {'a' if weighted else 'no'} weight= for this batch and "
                f"{'none' if weighted else 'one'} for those before, so that they would count in different units; "
                "give it for each batch, or for none"
            )
        self._weighted = weighted
        if not self._looking:
            return
        if self.have_gradient():
            self._looking = False
            if not self._has_scaler and _some_scaler_scales():
                raise PacelineError(
                    "a GradScaler scales the loss, and join() does not know it, so that the gradients would be too "
                    "large; give join() scaler="
                )
            self._say_what_is_lost()
        else:
            self._without_gradient += 1
            if self._without_gradient == _MOST_WITHOUT_GRADIENT:
                raise PacelineError(
                    f"no parameter of the model got a gradient in {_MOST_WITHOUT_GRADIENT} batches; call backward() "
                    "of a loss that is computed with the model that join() got" + self._of_graphs()
                )

    def instead_of_accumulating(self) -> str:
        """The end of the line about a batch without job.step(): what to write instead."""
        skip = "before a `continue` that leaves a batch out, write job.step(loss, skipped=True)"
        if not self.are_not_zero():
            return skip + "; leave out what takes a batch before its turn (a prefetcher), as num_workers= reads ahead"
        return (
            "to accumulate gradients, give join() a larger batch_size=, and write --set micro_batch=SAMPLES; " + skip
        )

    def have_gradient(self) -> bool:
        """Whether something was written to a gradient since start(), a zero, say."""
        # A gradient that a graph of a GPU has written has the same state as before.
        return bool(self._written()) or self.are_not_zero()

    def _written(self) -> list[int]:
        """The parameters to whose gradients something was written."""
        states = enumerate(zip(self._states(), self._before))
        return [index for index, (now, before) in states if now is not None and now != before]

    def _say_what_is_lost(self) -> None:
        """A program may throw gradients away on purpose, but not all that a parameter gets in a batch."""
        lost = [
            index for index in sorted(self._thrown_away.difference(self._written())) if not self._is_not_zero(index)
        ]
        if not lost:
            return
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        print(
            f"paceline: optimizer.zero_grad() has thrown away the gradient of {self._names[lost[0]]}{others}, which "
            "a backward pass before it in the same batch had computed, and there is none at job.step(). Leave "
            "zero_grad() between two backward passes out, and let each loss reach its own part alone: "
            "loss.backward(inputs=[*part.parameters()])",
            file=sys.stderr,
            flush=True,
        )

    def _of_graphs(self) -> str:
        if not any(parameter.is_cuda for parameter in self._parameters):
            return ""
        return f". If a CUDA graph computes it that was captured before the loop, {IN_LOOP}"

    def are_not_zero(self) -> bool:
        return any(self._is_not_zero(index) for index in range(len(self._parameters)))

    def _is_not_zero(self, index: int) -> bool:
        gradient = dense(self._parameters[index].grad)
        return gradient is not None and bool(gradient.any())

    def _states(self) -> list[Any]:
        gradients = [parameter.grad for parameter in self._parameters]
        return [None if gradient is None else (id(gradient), gradient._version) for gradient in gradients]


def _some_scaler_scales() -> bool:
    amp = torch.amp if hasattr(torch.amp, "GradScaler") else torch.cuda.amp
    return any(
        issubclass(type(one), amp.GradScaler) and getattr(one, "_scale", None) is not None for one in gc.get_objects()
    )
