"""Shards that can be read forward only, and whose length shows at their end."""

from __future__ import annotations

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

from .kept_places import KeptPlaces
from .saved_states import SavedStates
from .source import Damaged, changed, unreachable, unreadable

_MOST_OPEN = 64
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, UnicodeDecodeError, json.JSONDecodeError)


@dataclass
class _Reading:
    """A shard as far as it was read."""

    wanted: int  # the record that it was begun for
    records: Iterator[Any] | None = None  # none before the shard was opened
    next: int = 0  # the number of the next record
    seconds: float = 0.0  # spent on reading
    ended: bool = False
    damage: Damaged | None = None


class Forward(ABC):
    """A source of such shards: an UnsizedSource.

    The newest records stay in memory. One that was passed by is found by reading its shard again, from a saved state
    if there is one. That happens only after the death of another worker, and in a run that was resumed.
    """

    sized = False
    seconds_again = 0.0  # the longest that reading a shard took which can be read from its beginning only

    def __init__(self, names: Sequence[str], window: int) -> None:
        """window: how many of the newest records are kept. It has to be at least twice the stream's `shuffle`."""
        self.window = window
        self._names = list(names)
        self._lengths: dict[int, int] = {}
        self._readings: OrderedDict[int, _Reading] = OrderedDict()
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()  # key: shard and record
        self._places: KeptPlaces | None = None
        self._states: dict[int, SavedStates] = {}
        self._marks: dict[int, str] = {}
        self._forgetful: set[int] = set()  # shards that cannot save their place
        self._pid = os.getpid()

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
            self._read_to(shard, most)
        return min(most, self._lengths.get(shard, most))

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        found = []
        for record in records:
            if (shard, record) not in self._kept:
                self._read_to(shard, record + 1, again=True)
            if (shard, record) not in self._kept:
                before = self.length(shard) if self.sized else record + 1
                raise changed(self._names[shard], before, self._lengths[shard])
            found.append(self._kept[shard, record])
        return found

    def in_memory(self, places: Sequence[Sequence[int]]) -> dict[tuple[int, int], Any]:
        """The records of these shards and numbers that need no reading."""
        keys = ((shard, record) for shard, record in places)
        return {key: self._kept[key] for key in keys if key in self._kept}

    def read_next(self, shard: int, end: int, most: int) -> bool:
        """Reads up to `most` next records, before `end`, of a shard that is being read. False: there are none."""
        reading = self._readings.get(shard)
        if reading is None or reading.ended or reading.damage is not None or reading.next >= end:
            return False
        self._read_to(shard, min(reading.next + most, end))
        return True

    def _read_to(self, shard: int, end: int, again: bool = False) -> None:
        """All records before this one were read. again: those that were passed by are read again."""
        reading = self._reading(shard, end - 1, again)
        if reading.damage is not None and reading.next < end:
            raise reading.damage
        began = time.monotonic()
        try:
            if reading.records is None:
                reading.records, reading.next = self._begin(shard, reading.wanted)
            while reading.next < end and not reading.ended:
                self._kept[shard, reading.next] = next(reading.records)
                reading.next += 1
                if len(self._kept) > self.window:
                    self._kept.popitem(last=False)
        except StopIteration:
            reading.ended = True
            if self._places is not None and not self.sized and shard not in self._lengths:
                self._places.keep_length(self._mark(shard), reading.next)
            self._lengths[shard] = reading.next
        except _DAMAGE as error:
            reading.damage = unreadable(self._names[shard], error, "repair it, or leave it out")
            reading.damage.records = reading.next
            raise reading.damage from error
        except OSError as error:
            del self._readings[shard]  # the next try opens the shard again
            raise unreachable(self._names[shard], error, "see that it can be read on this host") from error
        except Exception:
            del self._readings[shard]  # a generator that raised ends, and its shard does not
            raise
        finally:
            reading.seconds += time.monotonic() - began
            if shard in self._forgetful:
                self.seconds_again = max(self.seconds_again, reading.seconds)

    def _saved(self, shard: int) -> SavedStates:
        if shard not in self._states:
            mark = "" if self._places is None else self._mark(shard)
            self._states[shard] = SavedStates(self._places, mark)
        return self._states[shard]

    def _mark(self, shard: int) -> str:
        """The same as long as the shard is, as far as it shows without reading it."""
        if shard not in self._marks:
            self._marks[shard] = f"{self._names[shard]} {self._identity(shard)}"
        return self._marks[shard]

    def _identity(self, shard: int) -> str:
        """A text that differs if the shard does, or what reads it."""
        return ""

    def _reading(self, shard: int, record: int, again: bool) -> _Reading:
        if os.getpid() != self._pid:  # a fork shares the places in open files
            self._readings.clear()
            self._pid = os.getpid()
        reading = self._readings.get(shard)
        if reading is None or (again and record < reading.next):
            reading = self._readings[shard] = _Reading(record)
            while len(self._readings) > _MOST_OPEN:
                self._readings.popitem(last=False)
        self._readings.move_to_end(shard)
        return reading

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readings": OrderedDict(), "_kept": OrderedDict()}
