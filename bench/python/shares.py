"""Samples dealt out by speed."""

from __future__ import annotations

from collections.abc import Sequence


def split(total: int, speeds: Sequence[float]) -> list[int]:
    """Parts of `total` so that the one that takes longest takes as short as it can."""
    parts = [int(total * speed / sum(speeds)) for speed in speeds]
    for _ in range(total - sum(parts)):
        next_one = min(range(len(parts)), key=lambda i: (parts[i] + 1) / speeds[i])
        parts[next_one] += 1
    return parts
