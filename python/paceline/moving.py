"""Batches on their way to the model's device."""

from __future__ import annotations

import functools
import gc
import inspect
from typing import Any

import torch

from .trees import leaves


def to_device(batch: Any, device: torch.device) -> Any:
    """The tensors in a batch, moved."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if moves_itself(batch):
        kind: Any = type(batch)
        # Each blocking copy would wait for all that the device has to compute.
        return batch.to(device, non_blocking=True) if _takes_non_blocking(kind) else batch.to(device)
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(value, device) for value in batch)
    return batch


def moves_itself(batch: Any) -> bool:
    """Whether this is an object with a to(), such as a BatchEncoding of transformers."""
    return not isinstance(batch, torch.Tensor) and callable(getattr(batch, "to", None))


@functools.cache
def _takes_non_blocking(kind: type) -> bool:
    try:
        parameters = inspect.signature(kind.to).parameters  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return False
    return "non_blocking" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


class Moves:
    """Moves the batches of a loop.

    The copies are on the current stream, as the model's computation is. A program with streams of its own may use a
    batch on one of them without waiting, as it may use one of the host's memory in plain PyTorch. So its batches are
    copied on another stream, and are there before the program gets them: the current stream may still compute the
    step before.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._looked = False  # at the program's streams
        self._copies: Any = None  # the stream of the copies; None: the current one
        self._held: list[torch.Tensor] = []  # the last batch; by the next one, streams that read it have been joined

    def move(self, batch: Any) -> Any:
        if self._device.type == "cpu":
            return batch
        if not self._looked:
            self._looked = True
            if self._device.type == "cuda" and _has_own_stream(self._device):
                self._copies = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        if self._copies is None or not _is_of_host(batch):
            return to_device(batch, self._device)
        with torch.cuda.stream(self._copies):
            moved = to_device(batch, self._device)
        self._copies.synchronize()  # no step is computed on it
        now = torch.cuda.current_stream(self._device)
        self._held = [tensor for _, tensor in leaves(moved)]
        for tensor in self._held:
            tensor.record_stream(now)
        return moved

    def forget(self) -> None:
        self._held = []


def _has_own_stream(device: torch.device) -> bool:
    """Whether the program has made a stream of this device, or a library has for it."""
    current = torch.cuda.current_stream(device)
    return any(
        issubclass(type(one), torch.cuda.Stream) and one.device == device and one != current
        for one in gc.get_objects()
    )


def _is_of_host(batch: Any) -> bool:
    """Whether leaves() finds all that there is to move, and it is in the host's memory."""
    if isinstance(batch, torch.Tensor):
        return batch.device.type == "cpu" and batch.layout == torch.strided and not batch.is_nested
    if moves_itself(batch):
        return False
    if isinstance(batch, dict):
        return all(_is_of_host(value) for value in batch.values())
    return not isinstance(batch, (list, tuple)) or all(_is_of_host(value) for value in batch)
