"""Tensors between two stages: a line of JSON that describes them, then their bytes.

Each tensor brings its shape and type, so that every batch may have others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Optional

import torch

from .binding import as_bytes
from .errors import PacelineError
from .memories import Memory

Tensors = Sequence[Optional[torch.Tensor]]

_LENGTH = 8  # bytes: of the description, in its first line
_ALIGNMENT = 64


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def write_message(memory: Memory, tensors: Tensors) -> int:
    """The number of bytes."""
    described = [
        None if one is None else [str(one.dtype).removeprefix("torch."), list(one.shape), one.requires_grad]
        for one in tensors
    ]
    head = json.dumps(described, separators=(",", ":")).encode()
    offset = _LENGTH + len(head)
    places = []
    for one in tensors:
        offset = _aligned(offset)
        places.append(offset)
        offset += 0 if one is None else one.numel() * one.element_size()
    if offset > memory.size:
        raise PacelineError(
            f"the activations between two stages have {offset} bytes, and there is room for {memory.size}; the first "
            "samples of the training set, which the room is made for, are much smaller: use smaller micro-batches"
        )
    memory.view(0, _LENGTH + len(head), torch.uint8).copy_(
        torch.frombuffer(bytearray(len(head).to_bytes(_LENGTH, "little") + head), dtype=torch.uint8)
    )
    for one, place in zip(tensors, places):
        if one is not None and one.numel() > 0:
            memory.view(place, one.numel(), one.dtype).view(one.shape).copy_(one.detach())
    return offset


def read_message(memory: Memory, size: int) -> list[torch.Tensor | None]:
    """Copies, of which those that had required a gradient require one."""
    length = int.from_bytes(bytes(as_bytes(memory.view(0, _LENGTH, torch.uint8)).tolist()), "little")
    if not 0 <= length <= size - _LENGTH:
        raise PacelineError("another stage sent a message without a description")
    head = bytes(as_bytes(memory.view(_LENGTH, length, torch.uint8)).tolist())
    offset = _LENGTH + length
    tensors: list[torch.Tensor | None] = []
    for described in json.loads(head):
        offset = _aligned(offset)
        if described is None:
            tensors.append(None)
            continue
        name, shape, requires_grad = described
        dtype = getattr(torch, name)
        count = int(torch.Size(shape).numel())
        tensor = memory.view(offset, count, dtype).view(shape).clone()
        tensors.append(tensor.requires_grad_(requires_grad))
        offset += count * tensor.element_size()
    return tensors
