"""The device on which a program builds its model, which a job with stages leaves there."""

from __future__ import annotations

import torch

from ..devices import evaluates_elsewhere
from ..session import session


def in_stages() -> bool:
    """False in an evaluator that is to compute on a device of its own (evaluate.device)."""
    here = session()
    return here is not None and here.stages and not evaluates_elsewhere(here)


def home_in_stages(model: torch.nn.Module) -> torch.device | None:
    """None in a job without stages, whose Trainer moves the whole model to its device as ever."""
    first = next(model.parameters(), None)
    return first.device if in_stages() and first is not None else None
