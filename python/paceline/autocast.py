"""Work that is not to run in a program's torch.autocast."""

from __future__ import annotations

import contextlib

import torch


def without_autocast() -> contextlib.ExitStack:
    """A context in which operations keep the types of their arguments."""
    outside = contextlib.ExitStack()
    for kind in ("cpu", "cuda"):
        if _is_on(kind):
            outside.enter_context(torch.autocast(kind, enabled=False))
    return outside


def _is_on(kind: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(kind))
    except TypeError:  # before PyTorch 2.4
        old = torch.is_autocast_cpu_enabled if kind == "cpu" else torch.is_autocast_enabled
        return bool(old())
