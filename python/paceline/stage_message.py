"""Tensors between two stages: a line of JSON that describes them, then their bytes.

Each tensor brings its shape and type, so that every batch may have others.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import NamedTuple, Optional

import torch

from .errors import PacelineError
from .file_memory import FileMemory

Tensors = Sequence[Optional[torch.Tensor]]

_LENGTH = 8  # bytes: of the description, in its first line
_ALIGNMENT = 64


class _Place(NamedTuple):
    """A tensor's place in a message."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    requires_grad: bool
    begin: int
    end: int


_Kind = Optional[tuple[torch.dtype, tuple[int, ...], bool]]


@functools.lru_cache(maxsize=64)
def _described(kinds: tuple[_Kind, ...]) -> bytes:
    tensors = [None if kind is None else [str(kind[0]).removeprefix("torch."), kind[1], kind[2]] for kind in kinds]
    return json.dumps(tensors, separators=(",", ":")).encode()


@functools.lru_cache(maxsize=64)
def _places(head: bytes) -> tuple[_Place | None, ...]:
    end = _LENGTH + len(head)
    places: list[_Place | None] = []
    for described in json.loads(head):
        if described is None:
            places.append(None)
            continue
        name, shape, requires_grad = described
        dtype = getattr(torch, name)
        begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = begin + int(torch.Size(shape).numel()) * torch.empty(0, dtype=dtype).element_size()
        places.append(_Place(dtype, tuple(shape), requires_grad, begin, end))
    return tuple(places)


def _view(memory: FileMemory, place: _Place) -> torch.Tensor:
    return memory.bytes[place.begin : place.end].view(place.dtype).view(place.shape)


def write_message(memory: FileMemory, tensors: Tensors) -> int:
    """The number of bytes."""
    head = _described(
        tuple(None if one is None else (one.dtype, tuple(one.shape), one.requires_grad) for one in tensors)
    )
    places = _places(head)
    end = max([place.end for place in places if place is not None], default=_LENGTH + len(head))
    if end > memory.size:
        raise PacelineError(
            f"the activations between two stages have {end} bytes, and there is room for {memory.size}; the first "
            "samples of the training set, which the room is made for, are much smaller: use smaller micro-batches"
        )
    memory.raw[: _LENGTH + len(head)] = len(head).to_bytes(_LENGTH, "little") + head
    for one, place in zip(tensors, places):
        if one is not None and place is not None:
            _view(memory, place).copy_(one.detach())
    return end


def read_message(memory: FileMemory, size: int, device: torch.device) -> list[torch.Tensor | None]:
    """Copies on the device, of which those that had required a gradient require one."""
    length = int.from_bytes(memory.raw[:_LENGTH], "little")
    if not 0 <= length <= size - _LENGTH:
        raise PacelineError("another stage sent a message without a description")
    return [
        None if place is None else _view(memory, place).to(device, copy=True).requires_grad_(place.requires_grad)
        for place in _places(memory.raw[_LENGTH : _LENGTH + length])
    ]
