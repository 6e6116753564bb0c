"""Digests of tensors, computed where they lie.

A tensor's bytes, filled up with zeros, are a list of 64-bit integers. Each block of BLOCK integers has a sum, modulo
2**64, in which each integer counts as often as its place says: an odd number of times, so that no single change is
lost. The digest is made of these sums, the shape and the type. So it is the same on any device.
"""

from __future__ import annotations

import functools
import hashlib

import torch

BLOCK = 1 << 16  # integers
_BYTES = 8 * BLOCK
# A processor's cache holds one block. A GPU wants more at once.
_BLOCKS_AT_ONCE = {"cpu": 1}
_MANY_BLOCKS = 64
_WORD = (1 << 64) - 1


def flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes, row by row: a view if the tensor is contiguous."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def blocks_at_once(device: torch.device) -> int:
    return _BLOCKS_AT_ONCE.get(device.type, _MANY_BLOCKS)


def block_sums(tensor: torch.Tensor, first: int = 0, count: int | None = None) -> torch.Tensor:
    """The sums of `count` blocks from block `first` on, or of all from there: int64, on the tensor's device.

    Nobody waits for the device here.
    """
    with torch.no_grad():
        flat = flat_bytes(tensor)
        end = flat.numel() if count is None else min(flat.numel(), (first + count) * _BYTES)
        step = blocks_at_once(tensor.device) * _BYTES
        times = _times(tensor.device)
        sums = [_sums(flat[begin : min(begin + step, end)], times) for begin in range(first * _BYTES, end, step)]
        return torch.cat(sums) if sums else times[:0]


def digest(tensor: torch.Tensor, sums: torch.Tensor) -> str:
    """sums: those of all blocks."""
    total = sum(int(one) * _odd(place) for place, one in enumerate(sums.tolist())) & _WORD
    text = f"{tensor.dtype} {list(tensor.shape)} {total:016x}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _sums(piece: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    """One for each block."""
    words = _words(piece)
    whole = words.numel() // BLOCK
    parts = [(words[: whole * BLOCK].view(whole, BLOCK) * times).sum(1)] if whole else []
    rest = words[whole * BLOCK :]
    if rest.numel():
        parts.append((rest * times[: rest.numel()]).sum().reshape(1))
    return torch.cat(parts)


def _words(piece: torch.Tensor) -> torch.Tensor:
    if piece.numel() % 8:
        piece = torch.nn.functional.pad(piece, (0, -piece.numel() % 8))
    elif piece.storage_offset() % 8 or piece.data_ptr() % 8:
        piece = piece.clone()
    return piece.view(torch.int64)


@functools.cache
def _times(device: torch.device) -> torch.Tensor:
    place = torch.arange(BLOCK, dtype=torch.int64, device=device)
    mixed = place * _signed(0x9E3779B97F4A7C15)
    mixed ^= mixed >> 29
    mixed *= _signed(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> 32
    return mixed | 1


def _odd(place: int) -> int:
    mixed = ((place + 1) * 0x9E3779B97F4A7C15) & _WORD
    mixed ^= mixed >> 29
    return ((mixed * 0x94D049BB133111EB) & _WORD) | 1


def _signed(word: int) -> int:
    return word - (1 << 64)
