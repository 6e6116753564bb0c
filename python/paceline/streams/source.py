"""A source of a stream: numbered shards of numbered records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Source(Protocol):
    """Shards have numbers from 0 on, and so have the records of a shard.

    A source is pickled to loader processes and copied by a fork, so it opens files when they are read. The world's
    faults are PacelineErrors of one line, with the name of the shard and a way out.
    """

    # Whether a shard says how many records it has without being read.
    sized: bool

    def shards(self) -> Sequence[str]:
        """The names of the shards, in an order that is the same in all processes."""
        ...

    def up_to(self, shard: int, most: int) -> int:
        """The number of records of the shard, but `most` if it has more. So a source need not read further."""
        ...

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        """The records with these numbers, which ascend."""
        ...
