"""CUDA graphs that a program captured before its weights got their place. They compute with the memory of then."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from .errors import PacelineError

IN_LOOP = "capture it in the loop, at the first batch"


def check_captures(model: nn.Module, moved: Iterable[torch.Tensor]) -> None:
    """Refuses a module that make_graphed_callables() captured with one of these parameters, which move now."""
    known = {id(parameter) for parameter in moved}
    for name, module in model.named_modules():
        made = getattr(module.__dict__.get("forward"), "__qualname__", None)
        if not isinstance(made, str) or not made.startswith("make_graphed_callables."):
            continue
        if any(id(parameter) in known for parameter in module.parameters()):
            raise PacelineError(
                f"{name or 'the model'} was captured by make_graphed_callables() before its weights got their place "
                f"in the job, and a CUDA graph goes on with the memory that they had; {IN_LOOP}"
            )
