"""A training set whose records have an order, and are read in it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import PacelineError
from .order import Pass
from .source import Source

# The records of an epoch of a stream whose length nobody knows: after so many, a job counts another epoch.
UNKNOWN_EPOCH = 1 << 16
_MOST_EPOCH = (1 << 31) - 1


class Stream:
    """Records of a source, for join(): each once a pass, in an order that the seed of the job decides (order.py)."""

    def __init__(
        self,
        source: Source,
        *,
        map: Callable[[Any], Any] | None = None,
        keep: Callable[[Any], bool] | None = None,
        pack: Callable[[list[Any]], list[Any]] | None = None,
        shuffle: int = 4096,
        interleave: int = 8,
        stride: int = 16,
        records: int | None = None,
    ) -> None:
        """map: what makes a sample of a record. keep: whether a record is used at all; it is asked before map.

        pack: makes samples of the samples of one lease, for example of several short texts a long one.
        shuffle: the number of records that are permuted together; 0: the order is that of the shards.
        interleave: the number of shards that are read at the same time, `stride` records in turn.
        records: the number of records of an epoch. Without it an epoch is one pass.
        """
        self.source = source
        self.map = map
        self.keep = keep
        self.pack = pack
        self._numbers = {"shuffle": shuffle, "interleave": interleave, "stride": stride}
        for name, value in {**self._numbers, "records": records}.items():
            least = 0 if name == "shuffle" else 1
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise PacelineError(f"{name} = {value!r} is not a number of records; write {least} or more")
        self._records = records
        window = getattr(source, "window", None)
        if window is not None and window < 2 * shuffle:
            raise PacelineError(
                f"{self!r} keeps {window} records in memory, and shuffle = {shuffle} needs {2 * shuffle}; give the "
                f"source window={2 * shuffle}, or the stream a smaller shuffle="
            )
        self._shards = len(source.shards())
        if self._shards == 0:
            raise PacelineError(f"{self!r} has no shards; name at least one")
        self._seed = 0
        self._size: int | None = None  # records of a pass, if they are known
        self._passes: dict[int, Pass] = {}

    def __repr__(self) -> str:
        return f"Stream({self.source!r})"

    @property
    def open_end(self) -> bool:
        """Whether nobody knows how many records an epoch has before the stream was read to its end."""
        return self._records is None and not self.source.sized

    @property
    def varies(self) -> bool:
        """Whether a batch may have fewer samples, or others, than places were leased."""
        return self.keep is not None or self.pack is not None or self.open_end

    @property
    def epoch_records(self) -> int:
        if self._records is None and self.open_end:
            return UNKNOWN_EPOCH
        records = self._records or len(self)
        if not 1 <= records <= _MOST_EPOCH:
            raise PacelineError(
                f"an epoch of {self!r} has {records} records, and 1 to {_MOST_EPOCH} are possible; give the stream "
                "records="
            )
        return records

    def __len__(self) -> int:
        """The number of records of a pass. TypeError if nobody knows it, as for a generator."""
        if self._size is None:
            if not self.source.sized:
                raise TypeError(f"nobody knows the length of {self!r} before it was read")
            self._size = sum(self.source.up_to(shard, 1 << 62) for shard in range(self._shards))
        return self._size

    @property
    def known_records(self) -> int | None:
        """The number of records of a pass, if it is known or cheap to know."""
        return self._size if self._size is not None or not self.source.sized else len(self)

    def seed(self, value: int) -> None:
        """The order follows from this number. To be called before the first read."""
        self._seed = value
        self._passes.clear()

    def records(self, number: int, begin: int, end: int) -> list[Any]:
        """The records at places [begin, end) of pass `number`, fewer if the pass has no more."""
        places = self._pass(number).places(begin, end)
        self._learn(number)
        by_shard: dict[int, list[tuple[int, int]]] = {}
        for at, (shard, record) in enumerate(places):
            by_shard.setdefault(shard, []).append((record, at))
        found: list[Any] = [None] * len(places)
        for shard, wanted in by_shard.items():
            wanted.sort()
            for (_, at), record in zip(wanted, self.source.read(shard, [record for record, _ in wanted])):
                found[at] = record
        return found

    def ends_at(self, number: int, place: int) -> bool:
        """Whether pass `number` has no record from `place` on."""
        ends = self._pass(number).ends_at(place)
        self._learn(number)
        return ends

    def places(self, number: int, begin: int, end: int) -> list[tuple[int, int]]:
        """The shard and the record at each of these places."""
        return self._pass(number).places(begin, end)

    def one_pass(self, number: int = 0) -> Iterator[Any]:
        """All samples of a pass, for a look at them outside a job."""
        place = 0
        while found := self.records(number, place, place + 256):
            place += len(found)
            kept = [record for record in found if self.keep is None or self.keep(record)]
            samples = kept if self.map is None else [self.map(record) for record in kept]
            yield from samples if self.pack is None else self.pack(samples)

    def reading(self, source: Source) -> Stream:
        """The same stream, whose records come another way."""
        other = copy.copy(self)
        other.source = source
        other._passes = {}
        return other

    def digest(self) -> str:
        """The same wherever the shards have these names and the order these settings."""
        text = repr((list(self.source.shards()), self._numbers, self._records))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_passes": {}}

    def _pass(self, number: int) -> Pass:
        if number not in self._passes:
            # A lease may go back to the pass before, after another worker's death.
            self._passes = {known: one for known, one in self._passes.items() if known >= number - 1}
            self._passes[number] = Pass(
                self._shards, self.source.up_to, self.source.sized, self._seed, number, **self._numbers
            )
        return self._passes[number]

    def _learn(self, number: int) -> None:
        size = self._passes[number].size
        if size is None:
            return
        if self._size is not None and self._size != size:
            raise PacelineError(
                f"{self!r} had {self._size} records in one pass and {size} in another; begin a new run, with shards "
                "that stay as they are"
            )
        self._size = size
