"""Places in iterables that can save where they are: state_dict() and load_state_dict()."""

from __future__ import annotations

import copy
import itertools
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import torch

_EVERY = 1000  # records
_MOST = 64  # states of a shard, which may be large


class SavedStates:
    """The states of shards, one each 1000 records that were read; fewer of a long shard."""

    def __init__(self) -> None:
        self._states: dict[int, list[tuple[int, Any]]] = {}  # record and state, ascending

    def reading(self, shard: int, record: int, opened: Any) -> tuple[Iterator[Any], int]:
        """The records of a shard that was just opened, from the last state at or before `record`; and its record."""
        states = self._states.setdefault(shard, [])
        index = bisect_right([saved for saved, _ in states], record) - 1
        if index < 0:
            return self._saving(states, opened, 0), 0
        first, state = states[index]
        opened.load_state_dict(copy.deepcopy(state))
        return self._saving(states, opened, first), first

    def records(self, shard: int) -> list[int]:
        return [record for record, _ in self._states.get(shard, [])]

    @staticmethod
    def _saving(states: list[tuple[int, Any]], opened: Any, number: int) -> Iterator[Any]:
        for record in whole(opened):
            number += 1
            if number % _EVERY == 0 and (not states or states[-1][0] < number):
                # The object may go on in the same dictionary.
                states.append((number, copy.deepcopy(opened.state_dict())))
                if len(states) > _MOST:
                    del states[::2]  # the rest are twice as far apart
            yield record


def can_save(opened: Any) -> bool:
    return hasattr(opened, "state_dict") and hasattr(opened, "load_state_dict")


def whole(opened: Any) -> Iterator[Any]:
    """All its records. In a loader process an IterableDataset would keep those of other processes for them."""
    worker = torch.utils.data._utils.worker
    info, worker._worker_info = worker._worker_info, None
    try:
        records = iter(opened)
        first = list(itertools.islice(records, 1))
    finally:
        worker._worker_info = info
    yield from first
    yield from records
