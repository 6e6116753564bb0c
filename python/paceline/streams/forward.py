"""Shards that can be read forward only, and whose length shows at their end."""

from __future__ import annotations

import contextlib
import gzip
import json
import lzma
import os
import time
import zlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import PacelineError, name_sample
from .kept_places import KeptPlaces
from .saved_states import SavedStates
from .source import Damaged, changed, unreachable, unreadable
from .window import Window

_MOST_OPEN = 64
_ALL = 1 << 62
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, UnicodeDecodeError, json.JSONDecodeError)


@dataclass(eq=False)
class _Reading:
    """A shard as far as it was read."""

    wanted: int  # the record that it was begun for
    records: Iterator[Any] | None = None  # none before the shard was opened
    next: int = 0  # the number of the next record
    seconds: float = 0.0  # spent on reading
    damage: Damaged | None = None


class Forward(ABC):
    """A source of such shards: an UnsizedSource.

    The newest records stay in memory. One that was passed by is found by reading its shard again, from a saved state
    if there is one. The first reading stays where it is if its shard cannot save its place. All that happens only
    after the death of another worker, and in a run that was resumed.
    """

    sized = False
    says_length = "length="  # the option from which length() knows the records of a shard
    seconds_again = 0.0  # the longest that reading a shard took which can be read from its beginning only
    # Whether who reads gets copies of the records, as from a reader. Otherwise it may write to a record, for example
    # in map=, so that one may not be given twice.
    gives_copies = False

    def __init__(self, names: Sequence[str], window: int) -> None:
        """window: how many of the newest records are kept. It has to be at least twice the stream's `shuffle`."""
        self.window = window
        self._names = list(names)
        self._lengths: dict[int, int] = {}
        self._readings: OrderedDict[int, list[_Reading]] = (
            OrderedDict()
        )  # key: shard; the last used ones are at the end
        self._kept = Window(window)
        self._interleave = 1
        self._ended = False  # any reading
        self._sizes: dict[int, int] = {}
        self._places: KeptPlaces | None = None
        self._states: dict[int, SavedStates] = {}
        self._marks: dict[int, str] = {}
        self._forgetful: set[int] = set()  # shards that cannot save their place
        self._pid = os.getpid()

    def opens(self, shards: int) -> None:
        """So many shards are read in turn."""
        self._interleave = max(self._interleave, shards)

    def keep_places(self, name: str) -> None:
        """From now on, what this source learns of its shards is kept on the host's disk, and used from there.

        name: the same for all sources that give the same records, and for no others.
        """
        self._places = KeptPlaces(name)

    @abstractmethod
    def _begin(self, shard: int, record: int) -> tuple[Iterator[Any], int]:
        """The records of a shard from a place at or before `record` on, and the number of the first one.

        The shard may end before `record`, but not before that place.
        """

    @abstractmethod
    def length(self, shard: int) -> int:
        """The records of a shard, if they are known: `sized` is true then."""

    def shards(self) -> Sequence[str]:
        return self._names

    def up_to(self, shard: int, most: int) -> int:
        if shard not in self._lengths and self._places is not None:
            length = self._places.length(self._mark(shard))
            if length is not None:
                self._lengths[shard] = length
        if shard not in self._lengths and max(self._saved(shard).records(), default=0) < most:
            self._kept.asks(shard, most)
            if self.reached(shard) < most:
                self._read_to(shard, most)
        return min(most, self._lengths.get(shard, most))

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        found = []
        take = self._kept.give if self.gives_copies else self._kept.take
        for record in records:
            self._kept.asks(shard, record + 1)
            if not self._kept.has(shard, record):
                self._read_to(shard, record + 1)
            if not self._kept.has(shard, record):
                before = max(self._size(shard), record + 1) if self.sized else record + 1
                raise changed(self._names[shard], before, self._lengths[shard])
            found.append(take(shard, record))
        return found

    def in_memory(self, places: Sequence[Sequence[int]]) -> dict[tuple[int, int], Any]:
        """The records of these shards and numbers that need no reading."""
        found = {}
        for shard, record in places:
            with contextlib.suppress(KeyError):
                found[shard, record] = self._kept[shard, record]
        return found

    def reached(self, shard: int) -> int:
        """The number of the next record of the reading that is furthest; 0 if the shard is not being read."""
        return max((one.next for one in self._readings.get(shard, ())), default=0)

    def room_ahead(self) -> int:
        """How many records may be read before somebody asks for them."""
        return self._kept.room()

    def read_next(self, shard: int, begin: int, end: int, most: int) -> bool:
        """Reads up to `most` next records, in [begin, end), of a shard that is being read. False: there are none."""
        next_one = self.reached(shard)
        # The last record is left to who asks for it, as its reading shows whether the length is right.
        end = min(next_one + min(most, self.room_ahead()), end, self._size(shard) - 1)
        if next_one < begin or next_one >= end:
            return False
        return self._read_to(shard, end, ahead=True)

    def _read_to(self, shard: int, end: int, ahead: bool = False) -> bool:
        """Reads the records of a shard before `end`. False: it has ended."""
        reading = self._reading(shard, end - 1)
        if reading.damage is not None:
            raise reading.damage
        began = time.monotonic()
        put = self._kept.put_ahead if ahead else self._kept.put
        try:
            if reading.records is None:
                reading.records, reading.next = self._begin(shard, reading.wanted)
                self._end_others(shard, reading)
            # If this is far, the run was resumed: of what is passed by now, the records of a block are soon wanted. A
            # block has half a window at most, and its rounds may begin before it.
            keep_from = end - max(1, 5 * self.window // (8 * self._in_turn()))
            last = self._size(shard) - 1
            while reading.next < end:
                record = next(reading.records)
                if reading.next == last:
                    self._check_end(shard, reading.records)
                if reading.next >= keep_from:
                    put(shard, reading.next, record)
                reading.next += 1
            if reading.next > last:
                self._drop(shard, reading)
                self._ended = True
        except StopIteration:
            self._drop(shard, reading)
            self._ended = True
            if self._places is not None and not self.sized and shard not in self._lengths:
                self._keep_length(self._places, shard, reading.next)
            self._lengths[shard] = reading.next
            return False
        except DAMAGE as error:
            reading.damage = unreadable(self._names[shard], error, "repair it, or leave it out")
            reading.damage.records = reading.next
            raise reading.damage from error
        except OSError as error:
            self._drop(shard, reading)  # the next try opens the shard again
            raise unreachable(self._names[shard], error, "see that it can be read on this host") from error
        except BaseException as error:  # Ctrl-C, too
            self._drop(shard, reading)  # a generator that raised ends, and its shard does not
            name_sample(error, lambda: f"record {reading.next} of the shard {self._names[shard]}")
            raise
        finally:
            reading.seconds += time.monotonic() - began
            if shard in self._forgetful:
                self.seconds_again = max(self.seconds_again, reading.seconds)
        return True

    def _check_end(self, shard: int, rest: Iterator[Any]) -> None:
        """Raises a PacelineError if there are records behind those that the shard is said to have."""
        try:
            next(rest)
        except Exception:  # StopIteration, or damage behind all of them
            return
        raise PacelineError(
            f"the shard {self._names[shard]} has more records than the {self._size(shard)} that {self.says_length} "
            "says; let it say the number of all, or leave it out"
        )

    def _keep_length(self, places: KeptPlaces, shard: int, records: int) -> None:
        place = f"{shard} {self._names[shard]}"
        before = places.length_before(place)  # in the same run, before it was resumed
        if before is not None and before != records:
            raise changed(self._names[shard], before, records) from None
        places.keep_length(self._mark(shard), place, records)

    def _saved(self, shard: int) -> SavedStates:
        states = self._states.pop(shard, None)
        if states is None:
            states = SavedStates(self._places, "" if self._places is None else self._mark(shard))
            # The first ones are of shards that were passed long ago, unless those are still read.
            for other in list(self._states)[: max(0, len(self._states) - self._most_open())]:
                if other not in self._readings:
                    del self._states[other]
        self._states[shard] = states  # the last used ones are at the end
        return states

    def _is_far(self, shard: int, begin: int, record: int) -> bool:
        """Whether a saved state is much nearer to a record than the place `begin` is, as at the end of a pass."""
        if record <= begin + self.window or shard not in self._states:
            return False
        return any(begin + self.window < state <= record for state in self._states[shard].records())

    def _end_others(self, shard: int, reading: _Reading) -> None:
        """Ends other readings of the object that this one is about to read, as it may have one place only."""
        opened = getattr(reading.records, "opened", None)
        if isinstance(opened, Sequence) or not hasattr(opened, "__iter__"):  # each loop over it has its own place
            return
        same = [
            (other, one)
            for other, readings in self._readings.items()
            for one in readings
            if one is not reading and getattr(one.records, "opened", None) is opened
        ]
        for other, one in same:
            if other == shard:
                self._drop(shard, one)
            elif hasattr(opened, "__next__"):
                raise PacelineError(
                    f"open= of a source gave one iterator for {self._names[other]} and {self._names[shard]}, which "
                    "are read in turn; let it make a new one for each shard"
                )

    def _most_open(self) -> int:
        return max(_MOST_OPEN, 2 * self._interleave)

    def _mark(self, shard: int) -> str:
        """The same as long as the shard is, as far as it shows without reading it."""
        if shard not in self._marks:
            self._marks[shard] = f"{self._names[shard]} {self._identity(shard)}"
        return self._marks[shard]

    def _identity(self, shard: int) -> str:
        """A text that differs if the shard does, or what reads it."""
        return ""

    def _reading(self, shard: int, record: int) -> _Reading:
        """The reading that comes to this record first, or a new one."""
        if os.getpid() != self._pid:  # a fork shares the places in open files
            self._readings.clear()
            self._pid = os.getpid()
        here = self._readings.setdefault(shard, [])
        self._readings.move_to_end(shard)
        nearest = max((one for one in here if one.next <= record), key=lambda one: one.next, default=None)
        if nearest is not None and not self._is_far(shard, nearest.next, record):
            return nearest
        reading = _Reading(record)
        furthest = max(here, key=lambda one: one.next, default=None)
        # Two objects that save their place may share a part that has it: a node of torchdata, or a data set's source.
        here[:] = [furthest, reading] if furthest is not None and shard in self._forgetful else [reading]
        for other in list(self._readings):
            if sum(map(len, self._readings.values())) <= self._most_open():
                break
            if other != shard:
                del self._readings[other]
        return reading

    def _in_turn(self) -> int:
        """How many shards are read in turn. Before one has ended, others may have to be opened still."""
        return min(sum(map(len, self._readings.values())), self._interleave) if self._ended else self._interleave

    def _size(self, shard: int) -> int:
        """The records of a shard if they are known before it has ended; otherwise more than any has."""
        if not self.sized:
            return _ALL
        if shard not in self._sizes:
            self._sizes[shard] = self.length(shard)
        return self._sizes[shard]

    def _drop(self, shard: int, reading: _Reading) -> None:
        self._readings[shard].remove(reading)
        if not self._readings[shard]:
            del self._readings[shard]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readings": OrderedDict(), "_kept": Window(self.window)}
