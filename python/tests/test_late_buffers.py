"""A buffer that gets its first elements after join() would be in no export, and a line says so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from paceline.errors import PacelineError
from paceline.inventory import take_inventory


class Norm(nn.Module):
    """Fills its buffers in the first forward pass."""

    def __init__(self, first: Any, persistent: bool = True, fills: bool = True) -> None:
        super().__init__()
        self.register_buffer("mean", first, persistent=persistent)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("unused", None)
        self.fills = fills

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fills:
            self.mean = x.detach().mean(0)
        return x if self.mean is None or self.mean.numel() == 0 else x - self.mean


def passes(norm: Norm, before: bool = False) -> None:
    model = nn.Sequential(nn.Linear(2, 2), norm)
    x = torch.ones(4, 2)
    if before:
        model(x)
    inventory = take_inventory(model)
    for _ in range(2):
        model(x).sum().backward()
        inventory.check_known()
        inventory.check_unchanged()


@pytest.mark.parametrize("first", [None, torch.empty(0)], ids=["None", "empty"])
def test_a_buffer_that_is_filled_later(first: Any) -> None:
    with pytest.raises(
        PacelineError,
        match=r"^the buffer 1.mean got its first elements after join\(\), so it would be in no export; pass one batch "
        r"through the model before join\(\), or register the buffer with persistent=False$",
    ):
        passes(Norm(first))
    passes(Norm(first), before=True)
    passes(Norm(first, persistent=False))
    passes(Norm(first, fills=False))


def test_a_buffer_that_comes_beside_one_that_stays_empty() -> None:
    norm = Norm(None, fills=False)
    inventory = take_inventory(nn.Sequential(nn.Linear(2, 2), norm))
    norm.register_buffer("unsaved", torch.ones(1), persistent=False)
    inventory.check_known()
    del norm.unused
    inventory.check_known()
    norm.register_buffer("late", torch.ones(1))
    with pytest.raises(PacelineError, match=r"the buffer 1.late came after join\(\)"):
        inventory.check_known()
