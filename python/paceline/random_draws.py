"""The operations of a forward pass that draw random numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Drawing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that notes the operations in it that draw random numbers, on every device: on meta, too."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: set[str] = set()  # "aten::bernoulli_"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
            self.operations.add(func._schema.name)
        return func(*args, **(kwargs or {}))
