"""Lengths of shards that show only while they are read, on their way to the coordinator, which compares hosts."""

from __future__ import annotations

from collections.abc import Iterable

Length = tuple[int, int]  # the number of a shard, and its records

_MOST = 4096  # the limit of a message


class Learnt:
    """Each shard is given once, and again only if it has another length then."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._new: list[Length] = []

    def add(self, lengths: Iterable[Length]) -> None:
        for shard, records in lengths:
            if self._known.get(shard) != records:
                self._known[shard] = records
                self._new.append((shard, records))

    def take(self) -> list[Length]:
        """Returns lengths that were not given before. A resumed run may have some left for the next call."""
        taken, self._new = self._new[:_MOST], self._new[_MOST:]
        return taken
