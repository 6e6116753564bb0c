"""A stub stands for the output of a block that another stage computes. Every use but one is an error.

The one use is as the input of the next block: there the activation that the other stage sent takes its place.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

# What a stub may be asked: the answer is the same on every stage.
_KNOWN = ("device", "dtype", "layout", "requires_grad", "is_cuda", "is_cpu", "is_meta", "is_mps", "is_xla", "is_xpu", "is_nested")

_without_torch_function: Any = getattr(
    torch._C, "DisableTorchFunctionSubclass", getattr(torch._C, "DisableTorchFunction", None)
)


class StubUsed(BaseException):
    """Not an Exception: a program's own `except Exception` shall not hide it."""

    def __init__(self, block: str, use: str, where: str) -> None:
        super().__init__(f"the output of {block} is used again at {where} ({use})")


class Stub(torch.Tensor):
    paceline_block: str

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
            if name in _KNOWN:
                with _without_torch_function():
                    return func(*args, **(kwargs or {}))
        raise StubUsed(_block_of((args, kwargs)), name, _caller())


def make_stub(block: str, like: torch.Tensor) -> Stub:
    stub: Stub = torch.Tensor._make_subclass(Stub, torch.empty(0, dtype=like.dtype, device=like.device))
    stub.paceline_block = block
    return stub


def _block_of(tree: Any) -> str:
    if isinstance(tree, Stub):
        return str(tree.__dict__.get("paceline_block", "a block"))
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, (list, tuple)):
        for part in tree:
            found = _block_of(part)
            if found:
                return found
    return ""


def _caller() -> str:
    """The line of the program, or of the library that has its model, that uses the stub."""
    ours = os.path.dirname(os.path.abspath(__file__))
    torchs = os.path.dirname(os.path.abspath(torch.__file__))
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if not file.startswith((ours + os.sep, torchs + os.sep)):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"
