"""A stub stands for the output of a block that another stage computes.

Until the stage's first block is called, whatever the program computes from stubs gives a stub: the stage before
computes it. That block gets the activations that this stage has received instead of its stubs. Every use of a stub
after that is an error, and so is every use that needs a value or a shape.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

# Names that a stub answers: the answer is the same on every stage.
_KNOWN = {
    *("device", "dtype", "layout", "requires_grad", "is_floating_point", "is_complex", "is_nested"),
    *("is_cuda", "is_cpu", "is_meta", "is_mps", "is_xla", "is_xpu"),
}
# Names whose result is not one tensor: no tensor at all, or several.
_NEED_VALUES = {
    *("shape", "size", "ndim", "dim", "ndimension", "numel", "nelement", "element_size", "itemsize", "nbytes"),
    *("stride", "storage_offset", "data_ptr", "is_contiguous", "storage", "untyped_storage", "is_same_size"),
    *("item", "tolist", "numpy", "__array__", "__len__", "__bool__", "__int__", "__float__", "__index__"),
    *("__complex__", "__iter__", "__contains__", "__repr__", "__format__", "__hash__", "is_nonzero", "equal"),
    *("allclose", "nonzero", "unique", "chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit"),
    *("unsafe_chunk", "unsafe_split", "backward", "register_hook", "grad", "grad_fn", "is_leaf", "names"),
}

_without_torch_function: Any = getattr(
    torch._C, "DisableTorchFunctionSubclass", getattr(torch._C, "DisableTorchFunction", None)
)


class StubUsed(BaseException):
    """Not an Exception: a program's own `except Exception` shall not hide it."""

    def __init__(self, block: str, use: str, where: str) -> None:
        super().__init__(f"the output of {block} is used again at {where} ({use})")


class Scope:
    """The part of a forward pass in which stubs may be computed with."""

    def __init__(self) -> None:
        self.is_open = True


class Stub(torch.Tensor):
    paceline_block: str
    paceline_scope: Scope

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        if name in _KNOWN:
            with _without_torch_function():
                return func(*args, **kwargs)
        stub = _first((args, kwargs))
        writes = name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or "out" in kwargs
        elsewhere = writes and not (args and isinstance(args[0], Stub) and "out" not in kwargs)
        if stub is None or not stub.paceline_scope.is_open or name in _NEED_VALUES or elsewhere:
            raise StubUsed("a block" if stub is None else stub.paceline_block, name, _caller())
        return args[0] if writes else _stub_like(stub)


def make_stub(block: str, scope: Scope, like: torch.Tensor) -> Stub:
    stub: Stub = torch.Tensor._make_subclass(Stub, torch.empty(0, dtype=like.dtype, device=like.device))
    stub.paceline_block, stub.paceline_scope = block, scope
    return stub


def _stub_like(stub: Stub) -> Stub:
    return make_stub(stub.paceline_block, stub.paceline_scope, stub)


def _first(tree: Any) -> Stub | None:
    if isinstance(tree, Stub):
        return tree
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, (list, tuple)):
        for part in tree:
            found = _first(part)
            if found is not None:
                return found
    return None


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
