"""The samples of leases of a stream, in a job.

A job counts places over its epochs, and the stream over its passes. An epoch of the job has `epoch_records` places. A
pass has as many records as the shards have, which nobody may know before the first pass has come to its end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Callable

from ..errors import PacelineError, name_sample
from .stream import LOST, Stream


def _runs_of(places: Sequence[int]) -> list[tuple[int, int]]:
    """Most often there is one run, and a second one if the lease has a scrap."""
    starts = [number for number in range(1, len(places)) if places[number] != places[number - 1] + 1]
    return [(places[begin], places[end - 1] + 1) for begin, end in zip([0, *starts], [*starts, len(places)])]


class Leased:
    def __init__(self, stream: Stream, seed: int, passes: float, functions: Stream | None = None) -> None:
        """passes: how often the whole stream is trained on, if nobody knows its length.

        functions: has keep, map and pack, which the program may set later; without it the stream has them.
        """
        self._stream = stream
        self._functions = stream if functions is None else functions
        self._passes = passes
        stream.seed(seed)

    def draw(
        self, epoch: int, places: Sequence[int], before: Callable[[int], None] | None = None
    ) -> tuple[list[Any], int | None]:
        """The samples of places of an epoch, which ascend; and the number of samples of the run, if they reach it.

        before: called with each place before its record is looked at, for the random numbers of keep and map.
        """
        stream, functions = self._stream, self._functions
        first = epoch * stream.epoch_records
        records = [record for begin, end in _runs_of(places) for record in self._records(first + begin, first + end)]
        total = self._total() if stream.open_end else None
        samples = []
        for place, record in zip(places, records):
            if record is LOST:
                continue
            if before is not None:
                before(place)
            try:
                if functions.keep is not None and not functions.keep(record):
                    continue
                samples.append(record if functions.map is None else functions.map(record))
            except Exception as error:
                name_sample(error, functools.partial(self._name_of, first + place))
                raise
        if functions.pack is not None:
            samples = list(functions.pack(samples))
        return samples, total if total is not None and total <= first + places[-1] + 1 else None

    def _records(self, first: int, last: int) -> list[Any]:
        """The records of places [first, last), counted over all epochs; fewer at the end of the run."""
        records: list[Any] = []
        while first + len(records) < last:
            at = first + len(records)
            size = self._stream.known_records
            total = self._total() if self._stream.open_end else None
            if total is not None and at >= total:
                break
            wanted = last - at if total is None else min(last, total) - at
            number, within = (0, at) if size is None else divmod(at, size)
            found = self._stream.records(number, within, within + wanted)
            if not found and self._stream.known_records in (None, 0):
                raise PacelineError(f"{self._stream!r} has no records; give join() a stream that has some")
            records += found
        if self._stream.open_end and self._stream.known_records is None:
            self._stream.ends_at(0, last)
        return records

    def _name_of(self, place: int) -> str:
        """The name of the record at this place, counted over all epochs."""
        size = self._stream.known_records
        return self._stream.record_name(*((0, place) if size is None else divmod(place, size)))

    def _total(self) -> int | None:
        """The samples of the whole run, as soon as they are known. The coordinator rounds in the same way."""
        size = self._stream.known_records
        return None if size is None else max(1, math.floor(self._passes * size + 0.5))
