"""The bytes of weights that a program says of its units, against counts made by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from paceline.cuts import find_cuts
from paceline.inventory import take_inventory
from paceline.unit_weights import unit_messages

pytestmark = pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later")


class _Tied(nn.Module):
    """Its head has the embedding's weight. The first block is frozen but for a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 6, bias=False)
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.head = nn.Linear(6, 6, bias=False)
        self.head.weight = self.embed.weight
        self.blocks[0].weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_units_say_the_bytes_of_frozen_and_tied_weights_in_their_own_type(dtype: torch.dtype) -> None:
    model, batch = _Tied().to(dtype), torch.randn(2, 6, dtype=dtype)
    inventory = take_inventory(model, of_stages=True)
    cuts = find_cuts(model, inventory, lambda model, batch: model(batch).sum(), batch, 2, None)
    each = dtype.itemsize
    keys = ("parameter_bytes", "frozen_bytes", "tied_bytes", "tied_to")
    assert [tuple(unit[key] for key in keys) for unit in unit_messages(inventory, cuts)] == [
        ((36 + 42) * each, 36 * each, 0, None),
        (42 * each, 0, 0, None),
        (42 * each, 0, 36 * each, 0),
    ]
