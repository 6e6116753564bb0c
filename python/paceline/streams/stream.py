"""Stream: the training set that is a source, in an order that does not depend on who reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from ..errors import PacelineError, kind_of
from ..seeding import mix, seed_sample
from .order import Place, StreamOrder
from .source import Source, changed

_THREADS = 8  # most of their time is waiting for files
_PIECE = 1024  # positions that epoch() reads at once


class Stream:
    """The records of a source, in one order an epoch for all workers, readers and hosts.

    `map`: function of a record that makes the sample. `keep`: function of a record that says whether it is used; what
    it drops keeps its position, so a range gives fewer samples, or none. `pack`: function of the list of a range's
    samples that makes another list; a range is what one worker computes at once. What these draw at random follows
    from the seed, the epoch and the position.

    `shuffle`: positions in a block that is shuffled; 0 or None keeps the order of shards and records. `interleave`:
    shards that are read in turn, `stride` records each. `records`: the records of an epoch, if they are known; they
    are checked when the epoch's end is read.
    """

    def __init__(
        self,
        source: Source,
        *,
        map: Callable[[Any], Any] | None = None,
        keep: Callable[[Any], bool] | None = None,
        pack: Callable[[list[Any]], list[Any]] | None = None,
        shuffle: int | None = 4096,
        interleave: int = 8,
        stride: int = 16,
        records: int | None = None,
    ) -> None:
        if not isinstance(source, Source):
            raise PacelineError(
                f"a Stream reads a source and not {kind_of(source)}; give it ParquetFiles(…), JsonLines(…), "
                "TarFiles(…), FileShards(…) or an object with shards(), length() and read()"
            )
        for name, function in (("map", map), ("keep", keep), ("pack", pack)):
            if function is not None and not callable(function):
                raise PacelineError(f"{name}= is {kind_of(function)}; give it a function, or leave it out")
        self.source = source
        self._names = list(source.shards())
        if not self._names:
            raise PacelineError(f"{kind_of(source)} has no shards; give it one file or more")
        self._map, self._keep, self._pack = map, keep, pack
        self._options: dict[str, Any] = {"shuffle": shuffle, "interleave": interleave, "stride": stride}
        self._records = records
        self._lengths: dict[int, int] = {}
        self.seed(0)

    def seed(self, value: int) -> None:
        """Sets the seed of the order and of what map, keep and pack draw. A job does it before the first read."""
        self._seed = value
        self._order = StreamOrder(len(self._names), self.length_of, seed=value, **self._options)

    def __len__(self) -> int:
        """Returns the records of an epoch: the declared ones, or the sum of the lengths of all shards."""
        if self._records is not None:
            return self._records
        unknown = [shard for shard in range(len(self._names)) if shard not in self._lengths]
        if len(unknown) > 1:
            with ThreadPoolExecutor(_THREADS) as threads:
                list(threads.map(self.length_of, unknown))
        return sum(self.length_of(shard) for shard in range(len(self._names)))

    def length_of(self, shard: int) -> int:
        """Returns the records of a shard. The source is asked once."""
        if shard not in self._lengths:
            self._lengths[shard] = int(self.source.length(shard))
        return self._lengths[shard]

    def places(self, epoch: int, begin: int, end: int) -> list[Place]:
        """Returns the (shard, record) of each position in [begin, end), and fewer if the epoch ends before."""
        places = self._order.places(epoch, begin, end)
        self._check_declared(epoch, begin + len(places), end)
        return places

    def read(self, epoch: int, begin: int, end: int) -> list[Any]:
        """Returns the samples of the positions [begin, end) in the stream's order.

        They are fewer if the epoch ends before `end`, if keep= drops some, or as pack= makes them. Raises a
        PacelineError if a shard cannot be read or has another length than before.
        """
        samples = []
        for position, record in enumerate(self._records_at(self.places(epoch, begin, end)), begin):
            if self._map or self._keep:
                seed_sample(mix(self._seed, epoch), position)
            if self._keep and not self._keep(record):
                continue
            samples.append(self._map(record) if self._map else record)
        if self._pack and samples:
            seed_sample(mix(self._seed, epoch), end)
            samples = list(self._pack(samples))
        return samples

    def epoch(self, epoch: int = 0) -> Iterator[Any]:
        """Yields the samples of an epoch in the stream's order, to look at them. pack= has the ranges of 1024."""
        begin = 0
        while self.places(epoch, begin, begin + 1):
            yield from self.read(epoch, begin, begin + _PIECE)
            begin += _PIECE

    def __repr__(self) -> str:
        options = [f"{name}={value}" for name, value in self._options.items()]
        functions = (("map", self._map), ("keep", self._keep), ("pack", self._pack))
        options += [f"{name}={_name_of(function)}" for name, function in functions if function]
        shards = f"{len(self._names)} shard{'s' * (len(self._names) != 1)}"
        return f"Stream({type(self.source).__name__} of {shards}, {', '.join(options)})"

    def _records_at(self, places: Sequence[Place]) -> list[Any]:
        """Records in the order of the places; each shard is read once, in ascending order."""
        by_shard: dict[int, list[tuple[int, int]]] = {}
        for at, (shard, record) in enumerate(places):
            by_shard.setdefault(shard, []).append((record, at))
        records: list[Any] = [None] * len(places)
        for shard, wanted in by_shard.items():
            wanted.sort()
            found = self.source.read(shard, [record for record, _ in wanted])
            if len(found) != len(wanted):
                raise changed(self._names[shard], self.length_of(shard), wanted[0][0] + len(found))
            for (_, at), record in zip(wanted, found):
                records[at] = record
        return records

    def _check_declared(self, epoch: int, reached: int, end: int) -> None:
        """At the end of an epoch whose records were declared."""
        if self._records is None:
            return
        known = self._order.known_length(epoch)
        if known is not None and reached == known and (known != self._records) and end >= min(known, self._records):
            raise PacelineError(
                f"an epoch of the stream has {known} records, and records={self._records} was declared; write "
                f"records={known}, or leave records= out"
            )


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
