"""Shards that a function of the program's own opens: anything that gives its records one after the other."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

from ..errors import PacelineError, kind_of
from .files import Files, Paths
from .forward import DAMAGE, Forward
from .saved_states import Whole, can_save, version_of
from .source import number_of, unreadable


class Shards(Forward):
    """Shards by name. Their records are what `open` gives for the name, in this order: a generator, say.

    If it gives an object with state_dict() and load_state_dict(), such as torchdata's nodes.Loader, a record that was
    passed by is read again from the nearest state; of others, from the beginning of the shard. Two such objects may
    share a part, so the newer one alone goes on.
    """

    def __init__(
        self,
        names: Sequence[str],
        open: Callable[[str], Iterable[Any]],
        *,
        length: Callable[[str], int] | None = None,
        window: int = 8192,
    ) -> None:
        """length: the number of records of a shard, if there is a way to know it without reading all of it.

        window: how many of the newest records are kept in memory. It has to be at least twice the stream's `shuffle`.
        """
        for name, function in (("open", open), ("length", length)):
            if function is not None and not callable(function):
                raise PacelineError(f"{name}= of a source is {kind_of(function)}; give it a function of a name")
        if isinstance(names, str):
            raise PacelineError(f"the names of shards are the text {names!r:.60}; write a list of names")
        super().__init__([str(name) for name in names], window)
        self._open = open
        self._length = length
        self.sized = length is not None

    def length(self, shard: int) -> int:
        assert self._length is not None
        return self._said_by(self._length, shard)

    def _said_by(self, length: Callable[[str], int], shard: int) -> int:
        try:
            return number_of(length(self._names[shard]), lambda: self._names[shard])
        except DAMAGE as error:
            raise unreadable(self._names[shard], error, "repair it, or leave it out") from error

    def _begin(self, shard: int, record: int) -> tuple[Iterator[Any], int]:
        opened = self._opened(shard)
        if not hasattr(opened, "__iter__") and not hasattr(opened, "__getitem__"):
            raise PacelineError(
                f"open= of a source gave {kind_of(opened)} for {self._names[shard]}; let it give the shard's "
                "records: a generator, a list or an open file"
            )
        if inspect.isgenerator(opened) and inspect.getgeneratorstate(opened) != inspect.GEN_CREATED:
            raise PacelineError(
                f"open= of a source gave a generator for {self._names[shard]} that has begun already; let it make a "
                "new one each time, as in open=lambda name: records_of(name)"
            )
        if can_save(opened):
            return self._saved(shard).reading(record, opened, lambda: self._opened(shard))
        self._forgetful.add(shard)
        return Whole(opened), 0

    def _identity(self, shard: int) -> str:
        return version_of(self._open)

    def _opened(self, shard: int) -> Iterable[Any]:
        return self._open(self._names[shard])


class FileShards(Shards):
    """Each file is a shard, and its name is its path or address. Files are a list, a folder or a pattern."""

    def __init__(
        self,
        files: Paths,
        open: Callable[[str], Iterable[Any]],
        *,
        length: Callable[[str], int] | None = None,
        window: int = 8192,
    ) -> None:
        """open and length: functions of a path, which is a copy's if the file has an address."""
        self._files = Files(files, ())
        super().__init__(self._files.files, open, length=length, window=window)

    def length(self, shard: int) -> int:
        length = self._length
        assert length is not None
        return self._said_by(lambda name: self._files.using(shard, length), shard)

    def bytes_of_files(self) -> list[int]:
        """Returns what hosts can compare before they have read the files: the sizes of the first ones."""
        return [] if self.sized else self._files.first_sizes()

    def _identity(self, shard: int) -> str:
        return f"{super()._identity(shard)} {self._files.identity(shard)}"

    def soon(self, shards: Sequence[int]) -> None:
        self._files.soon(shards)

    def _opened(self, shard: int) -> Iterable[Any]:
        if self._files.are_copies:
            return self._files.using(shard, self._begun)
        self._files.size(shard)  # raises an error if the file has changed since the last pass
        return self._open(self._files.files[shard])

    def _begun(self, path: str) -> Iterable[Any]:
        """A generator opens its file when it is asked for the first record, and the copy is there until then."""
        opened = self._open(path)
        if can_save(opened):
            return opened
        records = iter(opened)
        first = list(itertools.islice(records, 1))
        return itertools.chain(first, records)
