"""A stream as the data set of a DataLoader outside a job, such as one that evaluates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from ..streams import Stream


class EvaluatedStream(IterableDataset):  # type: ignore[type-arg]
    """The samples of one pass, in the order of the stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        # If several processes read, one of them reads all: each sample comes once, and in order.
        return self._stream.epoch() if info is None or info.id == 0 else iter(())
