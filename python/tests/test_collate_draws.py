"""A collate_fn that draws makes the same batch for every reader, whatever the data set."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from paceline.loading import AheadLoader, DirectLoader, Load, Loads, make_loader
from paceline.streams import Shards, Stream


def load(*samples: int, seed: int = 5) -> Load:
    return Load(samples, seed)


def mixed(samples: list[Any]) -> torch.Tensor:
    return torch.stack([sample[0] for sample in samples]) * torch.rand(()) * random.random()


def test_a_collate_function_that_draws() -> None:
    """Over samples that are read without a seed, too, a batch is the same for every reader."""
    train_set = torch.utils.data.TensorDataset(torch.arange(1.0, 9.0))
    direct, other = DirectLoader(Loads(train_set, mixed)), AheadLoader(Loads(train_set, mixed), {"num_workers": 1})
    first = direct.get(load(1, 2))
    torch.manual_seed(3)
    random.seed(3)
    assert torch.equal(direct.get(load(1, 2)), first)
    assert torch.equal(other.get(load(1, 2)), first)
    assert not torch.equal(direct.get(load(1, 2, seed=6)), first)
    other.close()


@pytest.mark.parametrize("options", [{}, {"map": lambda record: record, "draws": False}])
def test_a_collate_function_that_draws_over_a_stream(options: dict[str, Any]) -> None:
    """The readers are processes of two stages, say, and each has its generators where its own work left them."""
    stream = Stream(Shards(["all"], lambda name: [(torch.tensor(float(n)),) for n in range(20)]), **options)
    loads = make_loader(stream, mixed, {}, seed=1)
    first = loads.get(load(1, 2)).batch
    torch.manual_seed(3)
    random.seed(3)
    again = make_loader(stream, mixed, {}, seed=1)
    assert torch.equal(again.get(load(1, 2)).batch, first)
    assert not torch.equal(again.get(load(1, 2, seed=6)).batch, first)
