"""The names that a model's own state_dict() gives its tensors. An export has them, so that the model loads it."""

from __future__ import annotations

import contextlib

import torch
from torch import nn

Place = tuple[int, tuple[int, ...]]  # a tensor's address and shape


def saved_names(model: nn.Module) -> dict[Place, list[str]]:
    """All names of each tensor. Empty if PyTorch names the tensors by itself.

    A tensor that only state_dict() makes is in no export.
    """
    if not any(_names_by_itself(module) for module in model.modules()):
        return {}
    with contextlib.suppress(Exception):  # the program's own method may need more than the model has before join()
        names: dict[Place, list[str]] = {}
        for name, tensor in model.state_dict().items():
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                names.setdefault((tensor.data_ptr(), tuple(tensor.shape)), []).append(str(name))
        return names
    return {}


def _names_by_itself(module: nn.Module) -> bool:
    hooks = getattr(module, "_state_dict_hooks", None)
    return type(module).state_dict is not nn.Module.state_dict or bool(hooks)
