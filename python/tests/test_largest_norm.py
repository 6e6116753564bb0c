"""An embedding with max_norm writes to its weight in the forward pass: a line says what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from paceline.errors import PacelineError
from paceline.inventory import take_inventory


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_it_is_refused(kind: Any) -> None:
    with pytest.raises(
        PacelineError,
        match=rf"^0.weight is of an {kind.__name__} with max_norm=, .*; leave max_norm out, and scale the rows in",
    ):
        take_inventory(nn.Sequential(kind(4, 3, max_norm=1.0), nn.Linear(3, 1)))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_others_are_not(kind: Any) -> None:
    take_inventory(nn.Sequential(kind(4, 3), nn.Linear(3, 1)))
    frozen = nn.Sequential(kind(4, 3, max_norm=1.0), nn.Linear(3, 1))
    frozen[0].requires_grad_(False)
    take_inventory(frozen)


def test_the_advice_computes_the_same() -> None:
    torch.manual_seed(0)
    weight = torch.randn(8, 3) * torch.tensor([0.0, *[0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0]])[:, None]
    rows, max_norm = torch.arange(8), 1.0
    expected = nn.functional.embedding(rows, weight.clone(), max_norm=max_norm)
    leaf = weight.clone().requires_grad_()
    x = leaf[rows]
    scaled = x * max_norm / x.norm(dim=-1, keepdim=True).clamp(min=max_norm)
    assert torch.allclose(scaled, expected, atol=1e-5)
    scaled.sum().backward()
    assert leaf.grad is not None and bool(torch.isfinite(leaf.grad).all())
