"""A program's default device may be a card. The package's own tensors of the host are there all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from paceline.card_tensors import has_numpy
from paceline.streams.shuffling import permuted


@pytest.fixture(autouse=True)
def another_device() -> Iterator[None]:
    """Tensors of "meta" have no values, so that a use of one is an error."""
    has_numpy.cache_clear()
    with torch.device("meta"):
        yield
    has_numpy.cache_clear()


def test_numpy_is_found() -> None:
    assert has_numpy()


def test_shards_are_shuffled_in_the_host_s_memory() -> None:
    assert sorted(permuted(5, 1, 2, 3).tolist()) == list(range(5))
