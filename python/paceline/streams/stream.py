"""A training set whose records have an order, and are read in it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

from ..errors import PacelineError, kind_of
from .learnt import Learnt, Length
from .lease_guess import LeaseGuess
from .order import Pass
from .remote import file_name
from .said import say_once
from .source import Damaged, Source, changed, is_sized, up_to


class _Lost:
    """Its one object is the same in all processes."""

    def __repr__(self) -> str:
        return "LOST"

    def __reduce__(self) -> str:
        return "LOST"


# The records of an epoch of a stream whose length nobody knows: after so many, a job counts another epoch.
UNKNOWN_EPOCH = 1 << 16
_MOST_EPOCH = (1 << 31) - 1
_THREADS = 8  # most of their time is waiting for files
LOST = _Lost()  # in the place of a damaged record
_PIECE = 1024  # places that epoch() reads at once


class Stream:
    """Records of a source, for join(): each once a pass, in an order that the seed of the job decides (order.py)."""

    def __init__(
        self,
        source: Any,
        *,
        map: Callable[[Any], Any] | None = None,
        keep: Callable[[Any], bool] | None = None,
        pack: Callable[[list[Any]], list[Any]] | None = None,
        shuffle: int = 4096,
        interleave: int = 8,
        stride: int = 16,
        records: int | None = None,
        draws: bool = True,
        damaged: str = "stop",
    ) -> None:
        """source: a Source or an UnsizedSource.

        map: makes a sample of a record. keep: says whether a record is used at all; it is asked before map.
        pack: makes samples of the samples of one lease, for example of several short texts a long one.
        shuffle: the number of records that are permuted together; 0: the order is that of the shards.
        interleave: the number of shards that are read at the same time, `stride` records in turn.
        records: the number of records of an epoch. Without it an epoch is one pass.
        draws: False if keep, map and pack draw no random numbers. Then a record gets no seed of its own, which takes
            as long as reading a short text.
        damaged: "stop" ends the job at a shard that cannot be read; "skip" leaves its unreadable records out. They
            count as trained.
        """
        if not hasattr(source, "up_to") and not isinstance(source, Source):
            raise PacelineError(
                f"a Stream reads a source and not {kind_of(source)}; give it ParquetFiles(…), JsonLines(…), "
                "TarFiles(…), FileShards(…) or an object with shards(), length() and read()"
            )
        for name, function in (("map", map), ("keep", keep), ("pack", pack)):
            if function is not None and not callable(function):
                raise PacelineError(f"{name}= is {kind_of(function)}; give it a function, or leave it out")
        self.source = source
        self._in_order = bool(getattr(source, "in_order", False))
        self.map = map
        self.keep = keep
        self.pack = pack
        self._draws = bool(draws)
        self._numbers = {"shuffle": shuffle, "interleave": interleave, "stride": stride}
        for name, value in {**self._numbers, "records": records}.items():
            least = 0 if name == "shuffle" else 1
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise PacelineError(f"{name} = {value!r} is not a number of records; write {least} or more")
        self._records = records
        self._names = list(source.shards())
        if not self._names:
            raise PacelineError(f"{kind_of(source)} has no shards; give it one file or more")
        self._names_digest: str | None = None  # a million names take half a second
        window = getattr(source, "window", None)
        if window is not None and window < 2 * shuffle:
            raise PacelineError(
                f"{self!r} keeps {window} records in memory, and shuffle = {shuffle} needs {2 * shuffle}; give the "
                f"source window={2 * shuffle}, or the stream a smaller shuffle="
            )
        if hasattr(source, "opens"):
            source.opens(min(interleave, len(self._names)))
        if damaged not in ("stop", "skip"):
            raise PacelineError(f'damaged = {damaged!r} is unknown; write "stop" or "skip"')
        self.skips = damaged == "skip"
        self.host = ""  # a text that the processes of the job on this host share
        self._cut: dict[int, int] = {}  # records of the shards that end at damage
        self._seed = 0
        self._size: int | None = None  # records of a pass, if they are known
        self._lengths: dict[int, int] = {}  # records of each shard, if the source is sized
        self._learnt = Learnt()
        self._passes: dict[int, Pass] = {}
        self._guess = LeaseGuess()

    def __repr__(self) -> str:
        options = [f"{name}={value}" for name, value in self._numbers.items()]
        functions = (("map", self.map), ("keep", self.keep), ("pack", self.pack))
        options += [f"{name}={_name_of(function)}" for name, function in functions if function]
        shards = "1 shard" if len(self._names) == 1 else f"{len(self._names)} shards"
        return f"Stream({type(self.source).__name__} of {shards}, {', '.join(options)})"

    @property
    def draws(self) -> bool:
        """Whether a function of the stream may draw random numbers."""
        return self._draws and any(one is not None for one in (self.map, self.keep, self.pack))

    @property
    def open_end(self) -> bool:
        """Whether nobody knows how many records an epoch has before the stream was read to its end."""
        return self._records is None and not is_sized(self.source)

    @property
    def varies(self) -> bool:
        """Whether a batch may have fewer samples, or others, than places were leased."""
        return self.keep is not None or self.pack is not None or self.open_end or self.skips

    @property
    def epoch_records(self) -> int:
        """The records of an epoch of a job."""
        records = UNKNOWN_EPOCH if self.open_end else self._records or len(self)
        if not 1 <= records <= _MOST_EPOCH:
            raise PacelineError(
                f"an epoch of {self!r} has {records} records, and 1 to {_MOST_EPOCH} are possible; give the stream "
                "records="
            )
        return records

    def __len__(self) -> int:
        """The number of records of a pass. TypeError if nobody knows it, as for a generator."""
        if self._size is None:
            if not is_sized(self.source):
                raise TypeError(f"nobody knows the length of {self!r} before it was read")
            unknown = [shard for shard in range(len(self._names)) if shard not in self._lengths]
            if len(unknown) > 1:
                with ThreadPoolExecutor(_THREADS) as threads:
                    list(threads.map(self._length_of, unknown))
            self._size = sum(self._length_of(shard) for shard in range(len(self._names)))
        return self._size

    def __getitem__(self, number: Any) -> NoReturn:
        """Raises a PacelineError: for a loop, and a DataLoader that evaluates."""
        raise PacelineError(
            "a Stream has no samples by number; to go through all of them outside a job, in an evaluation too, write "
            "list(stream.epoch())"
        )

    @property
    def known_records(self) -> int | None:
        """The number of records of a pass, once somebody asked for it or came to its end."""
        return self._size

    def seed(self, value: int) -> None:
        """The order follows from this number. To be called before the first read."""
        self._seed = value
        self._passes.clear()

    def records(self, number: int, begin: int, end: int) -> list[Any]:
        """The records at places [begin, end) of pass `number`, fewer if the pass has no more.

        LOST is in the place of a damaged one, if those are skipped.
        """
        by_shard: dict[int, list[tuple[int, int]]] = {}
        places = self.places(number, begin, end)
        ahead = self._guessed(number, begin, end) if hasattr(self.source, "read_many") else []
        for at, (shard, record) in enumerate(places):
            by_shard.setdefault(shard, []).append((record, at))
        records: list[Any] = [None] * len(places)
        for wanted in by_shard.values():
            wanted.sort()
        asked = {shard: [record for record, _ in wanted] for shard, wanted in by_shard.items()}
        at_once = self.source.read_many(asked, ahead) if hasattr(self.source, "read_many") else {}
        for shard, wanted in by_shard.items():
            found = at_once[shard] if shard in at_once else self._read(number, shard, asked[shard])
            if len(found) != len(wanted):
                raise changed(self._names[shard], self._length_of(shard), wanted[0][0] + len(found))
            for (_, at), record in zip(wanted, found):
                records[at] = record
        return records

    def _guessed(self, number: int, begin: int, end: int) -> list[tuple[int, int]]:
        """The shard and the record at places of this block of the order that are likely to be asked for next."""
        shuffle = self._numbers["shuffle"]
        limit = end + -end % shuffle if shuffle else end
        guessed = self._guess.after(number, begin, end, limit)
        return [place for of_lease in guessed for place in self._pass(number).places(*of_lease)]

    def places(self, number: int, begin: int, end: int) -> list[tuple[int, int]]:
        """The shard and the record at each of these places."""
        order = self._pass(number)
        places = order.places(begin, end)
        self._learn(number)
        if hasattr(self.source, "soon"):
            self.source.soon(order.soon())
        return places

    def record_name(self, number: int, place: int) -> str:
        """A text that says which record is at this place of pass `number`, counted from 0 in its shard."""
        [(shard, record)] = self.places(number, place, place + 1)
        if hasattr(self.source, "record_name"):
            return str(self.source.record_name(shard, record, number))
        return f"record {record} of the shard {self._names[shard]}"

    def ends_at(self, number: int, place: int) -> bool:
        """Whether pass `number` has no record from `place` on."""
        ends = self._pass(number).ends_at(place)
        self._learn(number)
        return ends

    def epoch(self, number: int = 0) -> Iterator[Any]:
        """All samples of a pass, for a look at them outside a job. pack= gets those of 1024 places at once."""
        place = 0
        while found := self.records(number, place, place + _PIECE):
            place += len(found)
            there = [record for record in found if record is not LOST]
            kept = [record for record in there if self.keep is None or self.keep(record)]
            samples = kept if self.map is None else [self.map(record) for record in kept]
            yield from samples if self.pack is None else self.pack(samples)

    def reading(self, source: Any) -> Stream:
        """The same stream, whose records come another way."""
        other = copy.copy(self)
        other.source = source
        other._passes = {}
        other._guess = LeaseGuess()
        other._learnt = Learnt()
        return other

    def learnt(self) -> list[Length]:
        """Returns lengths that were learnt since the last call and that are no part of the digest."""
        return self._learnt.take()

    def name_of(self, shard: int) -> str:
        """Returns the name of a shard, the same on hosts that have it in other folders."""
        return file_name(self._names[shard])

    def digest(self) -> str:
        """The same wherever the shards have these names and lengths and the order these settings."""
        known = self.source.bytes_of_files() if hasattr(self.source, "bytes_of_files") else []
        return _digest((self.data_order(), self._records, known))

    def data_order(self) -> list[tuple[int, str]]:
        """Digests of the order of records, each from a position on. Equal ones mean the same records there."""
        if not self._in_order:
            if self._names_digest is None:
                self._names_digest = _digest([file_name(name) for name in self._names])
            return [(0, _digest((self._names_digest, self._numbers, self._all_lengths())))]
        shuffle = self._numbers["shuffle"]
        # A block of records that are permuted together is another one if any of them is.
        begins = {record - record % max(shuffle, 1): text for record, text in self.source.order()}
        size = len(self)
        begins[size - size % max(shuffle, 1)] = f"{list(begins.values())[-1]} {size}"  # the next pass begins there
        return [(begin, _digest((shuffle, text))) for begin, text in begins.items()]

    def _all_lengths(self) -> str | None:
        """A text for the records of each shard, if they are known before the first read: a sum could be the same."""
        if not self._knows_all:
            return None
        size = len(self)
        return f"{size} {_digest([self._lengths[shard] for shard in range(len(self._names))])}"

    @property
    def _knows_all(self) -> bool:
        """Whether the lengths of all shards are known before the first read."""
        return self._in_order or (self._records is None and is_sized(self.source))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_passes": {}}

    def _length_of(self, shard: int) -> int:
        """The source of a sized stream is asked once."""
        if shard not in self._lengths:
            self._lengths[shard] = self._ask_up_to(shard, 1 << 62)
        return self._lengths[shard]

    def _up_to(self, shard: int, most: int) -> int:
        records = min(most, self._length_of(shard)) if is_sized(self.source) else self._ask_up_to(shard, most)
        if records < most and not self._knows_all:
            self._learnt.add([(shard, records)])
        return records

    def _ask_up_to(self, shard: int, most: int) -> int:
        if shard not in self._cut:
            try:
                return up_to(self.source, shard, most)
            except Damaged as error:
                if not self.skips:
                    raise
                self._say(error)
                self._cut[shard] = error.records
        return min(most, self._cut[shard])

    def _read(self, number: int, shard: int, records: list[int]) -> list[Any]:
        try:
            return list(self.source.read(shard, records, *([number] if self._in_order else [])))
        except Damaged as error:
            if not self.skips:
                raise
            if len(records) > 1:
                return [found for record in records for found in self._read(number, shard, [record])]
            self._say(error)
            return [LOST]

    def _say(self, error: Damaged) -> None:
        say_once(self.host, f"paceline: {str(error).rpartition('; ')[0]}; skipped")

    def _pass(self, number: int) -> Pass:
        if number not in self._passes:
            # A lease may go back to the pass before, after another worker's death.
            self._passes = {known: one for known, one in self._passes.items() if known >= number - 1}
            self._passes[number] = Pass(
                len(self._names),
                self._up_to,
                is_sized(self.source),
                self._seed,
                number,
                **self._numbers,
                in_order=self._in_order,
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


def _digest(what: Any) -> str:
    return hashlib.blake2b(repr(what).encode(), digest_size=8).hexdigest()


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
