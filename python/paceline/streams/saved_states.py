"""Places in iterables that can save where they are: state_dict() and load_state_dict()."""

from __future__ import annotations

import copy
import functools
import itertools
import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .kept_places import KeptPlaces, States

_EVERY = 1000  # records
_MOST = 64  # states of a shard, which may be large


class SavedStates:
    """The states of a shard, one each 1000 records that were read; fewer of a long shard."""

    def __init__(self, places: KeptPlaces | None = None, shard: str = "") -> None:
        """places: where states are kept and were kept before, if anywhere. shard: its name there."""
        self._places = places
        self._shard = shard
        self._states: States = []  # ascending
        self._version = ""
        if places is not None:
            self._version, self._states = places.states(shard)

    def reading(self, record: int, opened: Any, open_again: Callable[[], Any]) -> tuple[Iterator[Any], int]:
        """The records of the shard just opened, from the last state at or before `record` on, and its record."""
        version = version_of(type(opened))
        if self._version != version:
            self._states.clear()
            self._version = version
        index = bisect_right(self.records(), record) - 1
        if index < 0:
            return self._saving(Whole(opened), opened, 0), 0
        first, state = self._states[index]
        try:
            opened.load_state_dict(copy.deepcopy(state))
            records = Whole(opened)
            # A record follows each state, so it shows now whether the object can go on from this one.
            return self._saving(itertools.chain([next(records)], records), opened, first), first
        except Exception:  # the state may be of another version of the object
            self._states.clear()
            opened = open_again()
            return self._saving(Whole(opened), opened, 0), 0

    def records(self) -> list[int]:
        """Returns the numbers of records after which states were saved. The shard has more than these."""
        return [record for record, _ in self._states]

    def _saving(self, records: Iterator[Any], opened: Any, number: int) -> Iterator[Any]:
        new: Any = None
        for record in records:
            if new is not None:
                # Some objects begin again from their state at the end, so none is kept there.
                self._keep(*new)
                new = None
            number += 1
            if number % _EVERY == 0 and (not self._states or self._states[-1][0] < number):
                # The object may go on in the same dictionary.
                new = number, copy.deepcopy(opened.state_dict())
            yield record

    def _keep(self, number: int, state: Any) -> None:
        if self._states and self._states[-1][0] >= number:  # another reading of the shard has come further
            return
        self._states.append((number, state))
        if len(self._states) > _MOST:
            del self._states[::2]  # the rest are twice as far apart
        if self._places is not None:
            self._places.keep_states(self._shard, self._version, self._states)


def can_save(opened: Any) -> bool:
    return hasattr(opened, "state_dict") and hasattr(opened, "load_state_dict")


def version_of(what: Any) -> str:
    """Returns a text that differs if a function or class is another one, as far as its module tells."""
    while isinstance(what, functools.partial):
        what = what.func
    module = getattr(what, "__module__", None) or type(what).__module__
    package = sys.modules.get(module.partition(".")[0])
    try:
        changed = os.stat(getattr(sys.modules.get(module), "__file__", None) or "").st_mtime_ns
    except OSError:
        changed = 0
    name = getattr(what, "__qualname__", type(what).__qualname__)
    return f"{module}.{name} {getattr(package, '__version__', '')} {changed}"


class Whole(Iterator[Any]):
    """All records of what was opened, which begins with the first one that is asked for."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened
        self._records: Iterator[Any] | None = None

    def __next__(self) -> Any:
        if self._records is not None:
            return next(self._records)
        # In a loader process an IterableDataset would keep the records of other processes for them.
        worker = torch.utils.data._utils.worker
        info, worker._worker_info = worker._worker_info, None
        try:
            self._records = iter(self.opened)
            return next(self._records)
        finally:
            worker._worker_info = info
