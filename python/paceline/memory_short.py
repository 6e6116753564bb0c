"""Errors of a device that had too little memory."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch

from .channel import Message
from .failures import failure_of


class Computing(NamedTuple):
    """The pass of a stage, or of the whole model, that is under way."""

    begin: int  # units [begin, end)
    end: int
    samples: int  # the size of the micro-batch
    parts: int = 1  # micro-batches of the batch


# PyTorch has no class for these errors: that of the processor's memory, those of memory that the driver, cuBLAS,
# cuDNN or Triton takes beside PyTorch, and its own error if other code has wrapped that in a RuntimeError.
_SAID = (
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUDA out of memory",
    "Triton Error [CUDA]: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID)


@contextlib.contextmanager
def ending_without_memory() -> Iterator[None]:
    """The block ends early, without an error, if a device has too little memory for it."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise


def no_room(computing: Computing) -> str:
    last = computing.end - 1
    units = f"units {computing.begin} to {last}" if last > computing.begin else f"unit {last}"
    return f"there is no room on this device for {units} with micro-batches of {computing.samples}"


def out_of_memory(error: BaseException, computing: Computing) -> Message:
    """The answer for a job that may cut the model otherwise."""
    failure = failure_of(error)
    return {"type": "out_of_memory", "text": f"{failure.text}; {no_room(computing)}", "where": failure.where}


def set_free(parameters: Iterable[torch.Tensor], device: torch.device) -> None:
    """Sets the memory of an iteration free that nobody goes on with: the next one may need it."""
    for parameter in parameters:
        parameter.grad = None
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def way_out(error: BaseException, samples: int, computing: Computing | None) -> str:
    """The end of the line about the error: it says what to write instead.

    samples: those in hand, if a whole model computes them at once; 0: none are.
    """
    if not is_out_of_memory(error):
        return ""
    if computing is not None:
        smaller = (
            f"write --set micro_batch={computing.samples // 2}, "
            if computing.samples > 1
            else "one sample at a time is the least; "
        )
        return (
            f"; {no_room(computing)}: {smaller}"
            "give this device fewer units in cuts, or, if the planner cuts, less memory_mb in its [[device]]"
        )
    if samples > 1:
        return (
            f"; {samples} samples at once have no room on this device: write --set micro_batch={samples // 2}, which "
            "computes each batch in parts, with the same gradient"
        )
    if samples == 1:
        return (
            "; the model has no room here with one sample: several devices can hold it together (docs/python.md, A "
            "model over several devices)"
        )
    return ""
