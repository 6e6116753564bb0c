"""Shards that can be read forward only."""

from __future__ import annotations

import contextlib
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

from ..errors import PacelineError
from .files import Files, Opened, Paths
from .source import changed, unreadable

_BEHIND = 4096  # records that a shard's reader keeps: as many as a block has


class Reader:
    """One shard's place. Records that it has passed are kept, the last 4096; for an earlier one it begins again.

    `begin`: function of a record number that gives an iterator, and the number of its first record, which is not
    greater.
    """

    def __init__(self, begin: Callable[[int], tuple[Iterator[Any], int]]) -> None:
        self._begin = begin
        self._records, self.next = begin(0)
        self._passed: OrderedDict[int, Any] = OrderedDict()

    def read(self, numbers: Sequence[int]) -> list[Any]:
        """Returns the records of ascending numbers; fewer if the shard ends before."""
        found = []
        for number in numbers:
            if number not in self._passed:
                if number < self.next:
                    self._records, self.next = self._begin(number)
                    self._passed.clear()
                if not self._go_to(number):
                    break
            found.append(self._passed[number])
        return found

    def _go_to(self, number: int) -> bool:
        for record in self._records:
            self._passed[self.next] = record
            self.next += 1
            if len(self._passed) > _BEHIND:
                self._passed.popitem(last=False)
            if self.next > number:
                return True
        return False


class FileShards(Files):
    """Files of any kind: `open` is a function of a file's path that gives an iterable of its records.

    `length`: function of a file's path that gives the number of its records; without it a file is read once to count
    them. A file is read forward, and again from its beginning for records further back than 4096.
    """

    def __init__(
        self,
        files: Paths,
        open: Callable[[str], Iterable[Any]],
        length: Callable[[str], int] | None = None,
        endings: Sequence[str] = ("",),
    ) -> None:
        super().__init__(files, endings)
        for name, function in (("open", open), ("length", length)):
            if function is not None and not callable(function):
                raise PacelineError(f"FileShards wants a function as {name}= and not {function!r:.60}; give it one")
        self._open, self._length = open, length
        self._lengths: dict[int, int] = {}
        self._readers: Opened[Reader] = Opened(self._reader)

    def length(self, shard: int) -> int:
        if shard not in self._lengths:
            if self._length is not None:
                self._lengths[shard] = int(self._length(self.files[shard]))
            else:
                with whole(self.files[shard]):
                    self._lengths[shard] = sum(1 for _ in self._iterator(shard))
        return self._lengths[shard]

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        with whole(self.files[shard]):
            reader = self._readers.get(shard)
        return read_forward(self.files[shard], reader, records, lambda: self.length(shard))

    def _reader(self, shard: int) -> Reader:
        return Reader(lambda number: (self._iterator(shard), 0))

    def _iterator(self, shard: int) -> Iterator[Any]:
        self.size(shard)
        return iter(self._open(self.files[shard]))


@contextlib.contextmanager
def whole(name: str) -> Iterator[None]:
    """Makes a PacelineError of what readers raise for a damaged file."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(name, error, "repair it, or leave it out") from error


def read_forward(name: str, reader: Reader, records: Sequence[int], length: Callable[[], int]) -> list[Any]:
    """Returns these records. Raises a PacelineError if the shard has ended before, or cannot be read."""
    with whole(name):
        found = reader.read(records)
    if len(found) < len(records):
        raise changed(name, length(), reader.next)
    return found
