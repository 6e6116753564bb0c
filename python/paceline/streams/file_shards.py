"""Files that a function of the program's own opens: anything that gives its records one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Callable

from ..errors import PacelineError, kind_of
from .files import Paths, file_list
from .forward import Forward


class FileShards(Forward):
    """Each file is a shard, and its records are what `open` gives for its path, in this order."""

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
        for name, function in (("open", open), ("length", length)):
            if function is not None and not callable(function):
                raise PacelineError(f"{name}= of FileShards is {kind_of(function)}; give it a function of a path")
        super().__init__(file_list(files, ()), window)
        self._open = open
        self._length = length
        self.sized = length is not None

    def __repr__(self) -> str:
        return f"FileShards of {len(self._names)} files"

    def length(self, shard: int) -> int:
        assert self._length is not None
        return self._length(self._names[shard])

    def _begin(self, shard: int, record: int) -> tuple[Iterator[Any], int]:
        return self._records(shard), 0

    def _records(self, shard: int) -> Iterator[Any]:
        yield from self._open(self._names[shard])  # opens the file with the first record
