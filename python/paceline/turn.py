"""A turn of the program's loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Turn:
    """One turn of the program's loop: a batch, or a part of one. The model has its weights."""

    epoch: int
    samples: tuple[int, ...]
    seed: int
    is_first: bool  # turn of its step
    batch: list[Any]  # empty once the program has it, so that nobody else keeps its memory

    def take_batch(self) -> Any:
        return self.batch.pop()
