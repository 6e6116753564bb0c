"""Permutations by a generator of our own: the same ones under each version of Python, NumPy and torch.

The generator is SplitMix64 (Steele, Lea and Flood 2014) as a function of a counter: number i of a key is
mix(key + (i + 1) * GOLDEN) modulo 2**64. The mix is one to one, so the numbers of a key differ from each other, and
their order is a permutation without ties.
"""

from __future__ import annotations

import torch

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def shuffled(n: int, key: int) -> list[int]:
    """Returns the permutation of 0..n-1 by a key below 2**64: the counters, sorted by their numbers."""
    counters = torch.arange(1, n + 1, dtype=torch.int64)
    value = counters * _signed(_GOLDEN) + _signed(key)
    value = (value ^ _shifted(value, 30)) * _signed(_FIRST)
    value = (value ^ _shifted(value, 27)) * _signed(_SECOND)
    value = value ^ _shifted(value, 31)
    order: list[int] = torch.argsort(value).tolist()
    return order


def _signed(value: int) -> int:
    """The same 64 bits as a signed number, as torch has them; its products wrap around."""
    return value - (1 << 64) if value >> 63 else value


def _shifted(value: torch.Tensor, bits: int) -> torch.Tensor:
    """Bits come in as zeros, and not as the sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)
