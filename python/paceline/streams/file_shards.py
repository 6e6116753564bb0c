"""Files that a function of the program's own opens: anything that gives its records one after the other."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

from ..errors import PacelineError
from .files import Files, find_files

_MOST_OPEN = 64


class _Reading:
    """A file as far as it was read."""

    def __init__(self, records: Iterable[Any], window: int) -> None:
        self._records: Iterator[Any] = iter(records)
        self._window = window
        self._kept: OrderedDict[int, Any] = OrderedDict()  # the newest records
        self.next = 0
        self.ended = False

    def read_to(self, record: int) -> None:
        """All records before this one were read."""
        while self.next < record and not self.ended:
            try:
                self._kept[self.next] = next(self._records)
            except StopIteration:
                self.ended = True
                return
            self.next += 1
            if len(self._kept) > self._window:
                self._kept.popitem(last=False)

    def has(self, record: int) -> bool:
        return record >= self.next or record in self._kept

    def get(self, record: int) -> Any:
        return self._kept[record]


class FileShards:
    """Each file is a shard, and its records are what `open` gives for its path, in this order.

    A record that was passed by is found by reading its file again from the beginning. That happens only after the
    death of another worker.
    """

    def __init__(
        self,
        files: Files,
        open: Callable[[str], Iterable[Any]],
        *,
        length: Callable[[str], int] | None = None,
        window: int = 8192,
    ) -> None:
        """length: the number of records of a file, if there is a way to know it without reading all of it.

        window: how many of the newest records of a file are kept in memory. It must be larger than the stream's
        `shuffle`.
        """
        self._files = find_files(files)
        self._open = open
        self._length = length
        self._window = window
        self._lengths: dict[int, int] = {}
        self._readings: OrderedDict[int, _Reading] = OrderedDict()
        self._pid = os.getpid()

    @property
    def sized(self) -> bool:
        return self._length is not None

    def __repr__(self) -> str:
        return f"FileShards of {len(self._files)} files"

    def shards(self) -> Sequence[str]:
        return self._files

    def up_to(self, shard: int, most: int) -> int:
        if shard not in self._lengths and self._length is not None:
            self._lengths[shard] = self._length(self._files[shard])
        if shard not in self._lengths:
            reading = self._reading(shard)
            self._read_to(reading, shard, most)
            if not reading.ended:
                return most
            self._lengths[shard] = reading.next
        return min(most, self._lengths[shard])

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        reading = self._reading(shard)
        found = []
        for record in records:
            if not reading.has(record):
                del self._readings[shard]
                reading = self._reading(shard)
            self._read_to(reading, shard, record + 1)
            if reading.ended and record >= reading.next:
                raise PacelineError(
                    f"{self._files[shard]} has {reading.next} records, and had more before; begin a new run, with "
                    "files that stay as they are"
                )
            found.append(reading.get(record))
        return found

    def _reading(self, shard: int) -> _Reading:
        if os.getpid() != self._pid:  # a fork shares the places in open files
            self._readings.clear()
            self._pid = os.getpid()
        if shard not in self._readings:
            self._readings[shard] = _Reading(self._opened(shard), self._window)
            while len(self._readings) > _MOST_OPEN:
                self._readings.popitem(last=False)
        self._readings.move_to_end(shard)
        return self._readings[shard]

    def _opened(self, shard: int) -> Iterable[Any]:
        try:
            return self._open(self._files[shard])
        except OSError as error:
            raise self._damaged(shard, error) from error

    def _read_to(self, reading: _Reading, shard: int, record: int) -> None:
        try:
            reading.read_to(record)
        except OSError as error:
            raise self._damaged(shard, error) from error

    def _damaged(self, shard: int, error: OSError) -> PacelineError:
        return PacelineError(f"{self._files[shard]} cannot be read: {error.strerror or error}; name files that can")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readings": OrderedDict()}
