"""An optimizer over parameters outside the joined model, which each process of a job would train for itself."""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass
from typing import Any

import torch.optim.optimizer as torchs
from torch import nn

from .failures import where_in

# Batches in which the same optimizer has stepped. An inner loop makes one for each batch.
_MOST_BATCHES = 3


@dataclass
class _Stepped:
    batch: int  # the last one
    batches: int
    versions: list[int]  # its parameters' counts of changes, behind its last step


class OtherOptimizers:
    """Says it once. Only parameters that go on from batch to batch count, and not a copy that is set anew in each."""

    def __init__(self, model: nn.Module) -> None:
        self._of_model = {id(parameter) for parameter in model.parameters()}
        self._batch = 0
        self._known: weakref.WeakKeyDictionary[Any, _Stepped] = weakref.WeakKeyDictionary()
        self._said = False
        self._hooks: list[Any] = []
        for when, hook in (("pre", self._before_step), ("post", self._behind_step)):
            register = getattr(torchs, f"register_optimizer_step_{when}_hook", None)  # PyTorch 2.0
            if register is not None:
                self._hooks.append(register(hook))

    def batch_is_over(self) -> None:
        self._batch += 1

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        known = self._known.get(optimizer)
        if known is not None and known.versions != _versions(self._outside(optimizer)):
            self._known.pop(optimizer)  # the program has written to them since

    def _behind_step(self, optimizer: Any, *_: Any) -> None:
        outside = [] if self._said else self._outside(optimizer)
        if not outside:
            return
        known = self._known.setdefault(optimizer, _Stepped(-1, 0, []))
        if known.batch != self._batch:
            known.batch, known.batches = self._batch, known.batches + 1
        known.versions = _versions(outside)
        if known.batches == _MOST_BATCHES:
            self._say(type(optimizer).__name__)

    def _outside(self, optimizer: Any) -> list[nn.Parameter]:
        """All parameters of the optimizer, if each of them is one, and none is the model's."""
        all_of_them = [one for group in optimizer.param_groups for one in group["params"]]
        if any(not isinstance(one, nn.Parameter) or id(one) in self._of_model for one in all_of_them):
            return []
        return all_of_them

    def _say(self, kind: str) -> None:
        self._said = True
        place = where_in(sys._getframe())
        print(
            f"paceline: {place + ': ' if place else ''}the {kind} that steps here has parameters outside the model "
            "that join() got: each process of the job trains its own, and no checkpoint has them. For one of them in "
            "the whole job give join() an nn.ModuleDict of all modules, and one optimizer with a group for each",
            file=sys.stderr,
            flush=True,
        )


def _versions(parameters: list[nn.Parameter]) -> list[int]:
    # A tensor of inference_mode() has no count of changes.
    return [0 if parameter.is_inference() else parameter._version for parameter in parameters]
