"""Permutations that are the same in every process, on every machine and with every version of torch."""

from __future__ import annotations

import torch

from ..seeding import mix

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def permuted(count: int, *seeds: int) -> torch.Tensor:
    """The numbers from 0 to count - 1, sorted by a hash of each (splitmix64), as int64."""
    keys = torch.arange(1, count + 1, dtype=torch.int64, device="cpu") * _signed(_GOLDEN) + _signed(mix(*seeds))
    keys ^= _shifted(keys, 30)
    keys *= _signed(_FIRST)
    keys ^= _shifted(keys, 27)
    keys *= _signed(_SECOND)
    keys ^= _shifted(keys, 31)
    return torch.argsort(keys, stable=True)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _shifted(words: torch.Tensor, bits: int) -> torch.Tensor:
    """torch shifts the sign in, and a hash wants zeros."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)
