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

from .random_draws import DRAW

# The operators that change their left side.
_IN_PLACE = {
    f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
}
# A stub may be asked these: the answer is the same on every stage.
_KNOWN = {
    *("device", "get_device", "dtype", "layout", "requires_grad", "is_floating_point", "is_complex", "is_nested"),
    *("is_cuda", "is_cpu", "is_meta", "is_mps", "is_xla", "is_xpu"),
}
# These give no tensor, or several.
NEED_VALUES = {
    *("shape", "size", "ndim", "dim", "ndimension", "numel", "nelement", "element_size", "itemsize", "nbytes"),
    *("stride", "storage_offset", "data_ptr", "is_contiguous", "storage", "untyped_storage", "is_same_size"),
    *("item", "tolist", "numpy", "__array__", "__len__", "__bool__", "__int__", "__float__", "__index__"),
    *("__complex__", "__iter__", "__contains__", "__repr__", "__format__", "__hash__", "is_nonzero", "equal"),
    *("allclose", "nonzero", "unique", "chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit"),
    *("unsafe_chunk", "unsafe_split", "backward", "register_hook", "grad", "grad_fn", "is_leaf", "names"),
}

without_torch_function: Any = getattr(
    torch._C, "DisableTorchFunctionSubclass", getattr(torch._C, "DisableTorchFunction", None)
)


class StubUsed(BaseException):
    """Not an Exception: a program's own `except Exception` shall not hide it."""

    def __init__(self, block: str, use: str, where: str) -> None:
        super().__init__(f"the output of {block} is used again at {where} ({use})")


class Scope:
    """The part of a forward pass in which stubs may be computed with."""

    def __init__(self, is_open: bool = True) -> None:
        self.is_open = is_open
        self.drew = False  # whether a function that draws random numbers got a stub since the last call of a block


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
            with without_torch_function():
                return func(*args, **kwargs)
        kinds = [kind for kind in types if issubclass(kind, Stub)]
        if kinds and Stub not in kinds:
            return kinds[0].computed(func, name, args, kwargs)
        return Stub.computed(func, name, args, kwargs)

    @classmethod
    def computed(cls, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        stub = _first((args, kwargs))
        writes = writes_to_first(name, kwargs)
        elsewhere = writes and not (args and isinstance(args[0], Stub) and "out" not in kwargs)
        if stub is None or not stub.paceline_scope.is_open or name in NEED_VALUES or elsewhere:
            raise StubUsed("a block" if stub is None else stub.paceline_block, name, caller())
        stub.paceline_scope.drew |= name.rstrip("_") in DRAW
        return args[0] if writes else _stub_like(stub)


def writes_to_first(name: str, kwargs: Any) -> bool:
    """Whether an operation changes its first argument, or one that is named out."""
    in_place = name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))
    return in_place or name == "__setitem__" or "out" in kwargs


def make_stub(block: str, scope: Scope, dtype: torch.dtype, device: torch.device) -> Stub:
    """device: what the stub says when it is asked; the program may make tensors there for the next block."""
    stub: Stub = torch.Tensor._make_subclass(Stub, torch.empty(0, dtype=dtype, device=device))
    stub.paceline_block, stub.paceline_scope = block, scope
    return stub


def _stub_like(stub: Stub) -> Stub:
    return make_stub(stub.paceline_block, stub.paceline_scope, stub.dtype, stub.device)


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


def caller() -> str:
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
