"""The arguments of join()."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable


@dataclass
class Wishes:
    optimizer: Any = None
    schedule: Any = None
    schedule_per: str = "epoch"
    evaluate: Callable[..., Any] | None = None
    batch_size: int | None = None
    epochs: float | None = None
    clip: float | None = None
    scaler: Any = None
    weights: str | None = None
    processes: int = 1
    collate_fn: Callable[..., Any] | None = None
    digest: str | None = None
    repeatable: bool | None = None
    loader: dict[str, Any] = field(default_factory=dict)
