"""The order of a stream: a function of the seed, the pass and the shards' lengths, and of nothing else.

So it is the same however many workers, loader processes and hosts there are, and after each resume.

A pass takes the shards in an order that its seed permutes. The first `interleave` of them are open. In turns each
open shard gives its next `stride` records; a shard that has fewer gives those. In the turn after its last record, the
next shard takes its place. Of the records in this order, each block of `shuffle` is permuted.
"""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .shuffling import permuted

UpTo = Callable[[int, int], int]
Places = tuple[torch.Tensor, torch.Tensor]  # the shard and the record at each of them, as int64
_NO_LIMIT = 1 << 62
_SHARDS, _BLOCK = 1, 2  # purposes of a seed


@dataclass(frozen=True)
class _Segment:
    """Rounds in which every one of these shards gives `stride` records."""

    start: int  # place of its first record, before blocks are permuted
    open: tuple[tuple[int, int], ...]  # shard, and its first record of the segment
    rounds: int
    stride: int

    @property
    def end(self) -> int:
        return self.start + self.rounds * len(self.open) * self.stride

    def at(self, begin: int, end: int) -> Places:
        """Places [begin, end), which are in this segment."""
        within = torch.arange(begin - self.start, end - self.start)
        if len(self.open) == 1:
            [(shard, first)] = self.open
            return torch.full_like(within, shard), within + first
        rounds, rest = within // (len(self.open) * self.stride), within % (len(self.open) * self.stride)
        turn = rest // self.stride
        shards, firsts = torch.tensor(self.open, dtype=torch.int64).T
        records = firsts[turn] + rounds * self.stride + rest % self.stride
        return shards[turn], records


class Pass:
    """The order of one pass. It looks no further into the shards than it is asked to."""

    def __init__(
        self,
        shards: int,
        up_to: UpTo,
        sized: bool,
        seed: int,
        number: int,
        shuffle: int,
        interleave: int,
        stride: int,
        in_order: bool = False,
    ) -> None:
        """up_to(shard, most): as Source.up_to(). shuffle: 0 permutes neither shards nor records.

        in_order: shards are not permuted, and are read one after the other.
        """
        interleave = 1 if in_order else interleave
        self._up_to = up_to
        self._sized = sized
        self._seed = seed
        self._number = number
        self._shuffle = shuffle
        self._stride = stride
        self._interleave = interleave
        order = permuted(shards, seed, _SHARDS, number).tolist() if shuffle and not in_order else range(shards)
        self._waiting = deque(order)
        self._open: list[list[int] | None] = [None] * interleave  # shard and next record; None: take the next one
        self._segments: list[_Segment] = []
        self._starts: list[int] = []
        self._block: tuple[int, Places] = (-1, _joined([]))
        self.size: int | None = None  # the number of records, once it is known

    def places(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The shards and records of places [begin, end); fewer if the pass has no more."""
        if not self._shuffle:
            return _pairs(self._before_shuffling(begin, end))
        found: list[tuple[int, int]] = []
        for block in range(begin // self._shuffle, -(-end // self._shuffle)):
            first = block * self._shuffle
            shards, records = self._permuted(block)
            wanted = slice(max(0, begin - first), max(0, end - first))
            found += _pairs((shards[wanted], records[wanted]))
        return found

    def soon(self) -> list[int]:
        """The shards that are opened next, as many as are open."""
        return list(itertools.islice(self._waiting, self._interleave))

    def ends_at(self, place: int) -> bool:
        """Whether there is no record from `place` on."""
        self._reach(place + 1)
        return self.size is not None and self.size <= place

    def _permuted(self, block: int) -> Places:
        if self._block[0] != block:
            first = block * self._shuffle
            shards, records = self._before_shuffling(first, first + self._shuffle)
            order = permuted(len(shards), self._seed, _BLOCK, self._number, block)
            self._block = (block, (shards[order], records[order]))
        return self._block[1]

    def _before_shuffling(self, begin: int, end: int) -> Places:
        self._reach(end)
        found: list[Places] = []
        at = max(0, bisect.bisect_right(self._starts, begin) - 1)
        while begin < end and at < len(self._segments) and self._segments[at].start < end:
            segment = self._segments[at]
            if begin < segment.end:
                found.append(segment.at(begin, min(end, segment.end)))
            begin = max(begin, segment.end)
            at += 1
        return _joined(found)

    def _reach(self, place: int) -> None:
        """The segments of all places before this one are known, or the size is."""
        while self.size is None and self._known < place:
            self._whole_rounds(place)
            if self._known >= place:
                return
            self._ragged_round()
            if not self._open:
                self.size = self._known

    @property
    def _known(self) -> int:
        return self._segments[-1].end if self._segments else 0

    def _add(self, segment: _Segment) -> None:
        self._segments.append(segment)
        self._starts.append(segment.start)

    def _whole_rounds(self, place: int) -> None:
        slots = [slot for slot in self._open if slot is not None]
        if len(slots) < len(self._open):
            return
        wanted = -(-(place - self._known) // (len(slots) * self._stride))
        rounds = min(
            (self._up_to(shard, _NO_LIMIT if self._sized else record + wanted * self._stride) - record)
            // self._stride
            for shard, record in slots
        )
        if rounds <= 0:
            return
        opened = tuple((shard, record) for shard, record in slots)
        self._add(_Segment(self._known, opened, rounds, self._stride))
        for slot in slots:
            slot[1] += rounds * self._stride

    def _ragged_round(self) -> None:
        """A turn of each shard, some of which end. If one cannot be read, nothing has changed."""
        turns: list[tuple[int, int, int]] = []  # each open shard, its next record, and the number of those it gives
        taken = 0  # waiting shards
        for slot in self._open:
            turn = None if slot is None else self._turn(*slot)
            while turn is None and taken < len(self._waiting):
                turn = self._turn(self._waiting[taken], 0)
                taken += 1
            if turn is not None:
                turns.append(turn)
        for _ in range(taken):
            self._waiting.popleft()
        for shard, record, given in turns:
            self._add(_Segment(self._known, ((shard, record),), 1, given))
        self._open = [[shard, record + given] for shard, record, given in turns]

    def _turn(self, shard: int, record: int) -> tuple[int, int, int] | None:
        """None: the shard has no record from this one on."""
        given = min(self._stride, self._up_to(shard, record + self._stride) - record)
        return (shard, record, given) if given > 0 else None


def _joined(parts: list[Places]) -> Places:
    if not parts:
        return torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    return torch.cat([shards for shards, _ in parts]), torch.cat([records for _, records in parts])


def _pairs(places: Places) -> list[tuple[int, int]]:
    return list(zip(places[0].tolist(), places[1].tolist()))
