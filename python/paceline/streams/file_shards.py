"""Files that a function of the program's own opens: anything that gives its records one after the other."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ..errors import PacelineError
from .files import Paths, file_list

_MOST_OPEN = 64


@dataclass
class _Reading:
    """A file as far as it was read."""

    records: Iterator[Any]
    next: int = 0
    ended: bool = False


class FileShards:
    """Each file is a shard, and its records are what `open` gives for its path, in this order.

    A record that was passed by is found by reading its file again from the beginning. That happens only after the
    death of another worker.
    """

    def __init__(
        self,
        files: Paths,
        open: Callable[[str], Iterable[Any]],
        *,
        length: Callable[[str], int] | None = None,
        window: int = 8192,
    ) -> None:
        """length: the number of records of a file, if there is a way to know it without reading all of it.

        window: how many of the newest records are kept in memory. It has to be at least twice the stream's `shuffle`.
        """
        self._files = file_list(files, ())
        self._open = open
        self._length = length
        self.window = window
        self._lengths: dict[int, int] = {}
        self._readings: OrderedDict[int, _Reading] = OrderedDict()
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()  # key: shard and record
        self._pid = os.getpid()

    @property
    def sized(self) -> bool:
        return self._length is not None

    def __repr__(self) -> str:
        return f"FileShards of {len(self._files)} files"

    def shards(self) -> Sequence[str]:
        return self._files

    def length(self, shard: int) -> int:
        assert self._length is not None
        if shard not in self._lengths:
            self._lengths[shard] = self._length(self._files[shard])
        return self._lengths[shard]

    def up_to(self, shard: int, most: int) -> int:
        if shard not in self._lengths:
            self._read_to(shard, most)
        return min(most, self._lengths.get(shard, most))

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        found = []
        for record in records:
            if (shard, record) not in self._kept:
                if record < self._reading(shard).next:
                    del self._readings[shard]
                self._read_to(shard, record + 1)
            if (shard, record) not in self._kept:
                raise PacelineError(
                    f"{self._files[shard]} has {self._lengths[shard]} records, and had more before; begin a new run, "
                    "with files that stay as they are"
                )
            found.append(self._kept[shard, record])
        return found

    def _read_to(self, shard: int, end: int) -> None:
        """All records before this one were read."""
        reading = self._reading(shard)
        try:
            while reading.next < end and not reading.ended:
                self._kept[shard, reading.next] = next(reading.records)
                reading.next += 1
                if len(self._kept) > self.window:
                    self._kept.popitem(last=False)
        except StopIteration:
            reading.ended = True
            self._lengths[shard] = reading.next
        except OSError as error:
            raise PacelineError(
                f"{self._files[shard]} cannot be read: {error.strerror or error}; name files that can"
            ) from error

    def _reading(self, shard: int) -> _Reading:
        if os.getpid() != self._pid:  # a fork shares the places in open files
            self._readings.clear()
            self._pid = os.getpid()
        if shard not in self._readings:
            self._readings[shard] = _Reading(self._opened(shard))
            while len(self._readings) > _MOST_OPEN:
                self._readings.popitem(last=False)
        self._readings.move_to_end(shard)
        return self._readings[shard]

    def _opened(self, shard: int) -> Iterator[Any]:
        yield from self._open(self._files[shard])  # opens the file with the first record

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readings": OrderedDict(), "_kept": OrderedDict()}
