"""Hugging Face's IterableDataset."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..errors import PacelineError, kind_of
from .forward import Forward

_STATE_EVERY = 1000  # records


class HuggingFace(Forward):
    """The shards of a datasets.IterableDataset, with what map(), filter() and the like make of them.

    The data set's state is saved every 1000 records: a record that was passed by is read again from the nearest one.
    """

    def __init__(self, dataset: Any, lengths: Sequence[int] | None = None, *, window: int = 8192) -> None:
        """lengths: the records of each shard, if you know them; an IterableDataset does not.

        window: how many of the newest records are kept in memory. It has to be at least twice the stream's `shuffle`.
        """
        _check(dataset)
        self._dataset = dataset
        self._shards = int(dataset.num_shards)
        super().__init__([f"{shard} of the IterableDataset" for shard in range(self._shards)], window)
        if lengths is not None and len(lengths) != self._shards:
            raise PacelineError(
                f"lengths= has {len(lengths)} numbers, and the data set {self._shards} shards; give one for each"
            )
        self.sized = lengths is not None
        self._known = list(lengths or ())
        self._states: dict[int, list[tuple[int, Any]]] = {}

    def length(self, shard: int) -> int:
        return self._known[shard]

    def _begin(self, shard: int, number: int) -> tuple[Iterator[Any], int]:
        """The records from the last saved state that is not after this number."""
        states = self._states.setdefault(shard, [])
        part = self._dataset.shard(self._shards, shard)
        index = bisect_right([saved for saved, _ in states], number) - 1
        if index < 0:
            return self._saving(shard, part, 0), 0
        first, state = states[index]
        part.load_state_dict(state)
        return self._saving(shard, part, first), first

    def _saving(self, shard: int, part: Any, number: int) -> Iterator[Any]:
        states = self._states[shard]
        for record in _whole(part):
            number += 1
            if number % _STATE_EVERY == 0 and (not states or states[-1][0] < number):
                states.append((number, part.state_dict()))
            yield record


def _whole(part: Any) -> Iterator[Any]:
    """Its records. In a loader process an IterableDataset would keep those of other processes for them."""
    records = iter(part)
    worker = torch.utils.data._utils.worker
    info, worker._worker_info = worker._worker_info, None
    try:
        first = list(itertools.islice(records, 1))
    finally:
        worker._worker_info = info
    yield from first
    yield from records


def _check(dataset: Any) -> None:
    if not all(hasattr(dataset, name) for name in ("num_shards", "shard", "state_dict", "load_state_dict")):
        raise PacelineError(
            f"HuggingFace(…) wants a datasets.IterableDataset with state_dict() and not {kind_of(dataset)}; give "
            "load_dataset(…, streaming=True), or a Dataset to join() as it is"
        )
    if getattr(dataset, "_distributed", None) is not None:
        raise PacelineError(
            "the IterableDataset went through split_dataset_by_node(), and Paceline itself gives each record to one "
            "worker; give the data set before that"
        )
    if any("BufferShuffled" in type(one).__name__ for one in _sources(getattr(dataset, "_ex_iterable", None))):
        raise PacelineError(
            "the IterableDataset went through shuffle(), whose buffer is lost at a resume; give the data set before "
            "that, and write Stream(…, shuffle=4096)"
        )


def _sources(iterable: Any) -> Iterator[Any]:
    """The chain of what a data set reads from."""
    waiting = [iterable]
    while waiting:
        one = waiting.pop()
        if one is not None:
            yield one
            waiting += [getattr(one, "ex_iterable", None), *getattr(one, "ex_iterables", ())]
