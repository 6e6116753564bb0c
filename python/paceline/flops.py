"""The floating-point operations of a forward and a backward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Callable


@contextlib.contextmanager
def counted_flops() -> Iterator[Callable[[], float]]:
    try:
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError:  # PyTorch 1.13 has none
        yield lambda: 0.0
        return
    counter = FlopCounterMode(display=False)
    with counter:
        yield lambda: float(counter.get_total_flops())
