"""The order of a stream: a function of the seed, the pass and the shards' lengths, and of nothing else.

So it is the same however many workers, loader processes and hosts there are, and after each resume.

A pass takes the shards in an order that its seed permutes. The first `interleave` of them are open. In turns each
open shard gives its next `stride` records; a shard that has fewer gives those. In the turn after its last record, the
next shard takes its place. Of the records in this order, each block of `shuffle` is permuted.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Callable

import torch

from .shuffling import permuted

UpTo = Callable[[int, int], int]
Places = tuple[torch.Tensor, torch.Tensor]  # the shard and the record at each of them, as int64
Turn = tuple[int, int, int]  # an open shard, its next record, and the number of those that it gives
_NO_LIMIT = 1 << 62
_SHARDS, _BLOCK = 1, 2  # purposes of a seed


class _Slot:
    """The shards that were open one after the other: 24 bytes each, as a pass may have millions."""

    def __init__(self) -> None:
        self._shards = array("q")
        self._rounds = array("q")  # the round of each shard's first turn
        self._ends = array("q")  # each shard's records; no limit before somebody has come to the end

    def open(self, shard: int, number: int) -> None:
        """This shard has its first turn in round `number`."""
        self._shards.append(shard)
        self._rounds.append(number)
        self._ends.append(_NO_LIMIT)

    def end(self, records: int) -> None:
        """The last shard has so many records."""
        self._ends[-1] = min(self._ends[-1], records)

    def turn(self, number: int, stride: int) -> Turn:
        """The turn in round `number`, as far as the shard's end is known. The shard gives 0 if it has ended."""
        at = bisect.bisect_right(self._rounds, number) - 1
        if at < 0:
            return 0, 0, 0
        record = min((number - self._rounds[at]) * stride, self._ends[at])
        return self._shards[at], record, min(stride, self._ends[at] - record)


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
        self._order = (
            permuted(shards, seed, _SHARDS, number)
            if shuffle and not in_order
            else torch.arange(shards, device="cpu")
        )
        self._taken = 0  # the number of shards in this order that were opened, or have no records
        self._slots = [_Slot() for _ in range(min(interleave, shards))]
        self._open = list(self._slots)  # without those that no shard is left for
        # Spans of rounds in which each shard gives `stride` records, and single rounds in which some give fewer.
        self._rounds = array("q")  # the number of the first round
        self._starts = array("q")  # place of the first record, before blocks are permuted
        self._whole = False  # the last span may have more rounds
        self._next_round = 0
        self._known = 0  # the number of places in all these rounds
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
        return [int(shard) for shard in self._order[self._taken : self._taken + self._interleave]]

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
        while at < len(self._starts) and self._starts[at] < end:
            stop = self._starts[at + 1] if at + 1 < len(self._starts) else self._known
            if begin < stop:
                found.append(self._in_span(at, begin - self._starts[at], min(end, stop) - self._starts[at]))
                begin = stop
            at += 1
        return _joined(found)

    def _in_span(self, at: int, begin: int, end: int) -> Places:
        """Its places [begin, end)."""
        turns = [slot.turn(self._rounds[at], self._stride) for slot in self._slots]
        shards, firsts, given = torch.tensor([turn for turn in turns if turn[2]], dtype=torch.int64, device="cpu").T
        within = torch.arange(begin, end, device="cpu")
        if int(given.min()) < self._stride:  # one round
            ends = given.cumsum(0)
            turn = torch.searchsorted(ends, within, right=True)
            return shards[turn], firsts[turn] + within - (ends - given)[turn]
        rounds, rest = within // (len(shards) * self._stride), within % (len(shards) * self._stride)
        turn = rest // self._stride
        return shards[turn], firsts[turn] + rounds * self._stride + rest % self._stride

    def _reach(self, place: int) -> None:
        """The rounds of all places before this one are known, or the size is."""
        while self.size is None and self._known < place:
            self._whole_rounds(place)
            if self._known >= place:
                return
            self._ragged_round()
            if not self._open:
                self.size = self._known

    def _add(self, rounds: int, places: int, whole: bool) -> None:
        if not (whole and self._whole):
            self._rounds.append(self._next_round)
            self._starts.append(self._known)
        self._whole = whole
        self._next_round += rounds
        self._known += places

    def _whole_rounds(self, place: int) -> None:
        if not self._next_round:
            return
        turns = [slot.turn(self._next_round, self._stride) for slot in self._open]
        wanted = -(-(place - self._known) // (len(turns) * self._stride))
        rounds = min(
            (self._up_to(shard, _NO_LIMIT if self._sized else record + wanted * self._stride) - record)
            // self._stride
            for shard, record, _ in turns
        )
        if rounds > 0:
            self._add(rounds, rounds * len(turns) * self._stride, whole=True)

    def _ragged_round(self) -> None:
        """A turn of each shard, some of which end. If one cannot be read, nothing has changed."""
        turns: list[tuple[_Slot, bool, Turn]] = []  # with whether the shard is a new one
        ended: list[tuple[_Slot, int]] = []
        taken = self._taken
        for slot in self._open:
            shard, record, _ = slot.turn(self._next_round, self._stride)
            turn = self._turn(shard, record) if self._next_round else None
            if turn is None:
                ended.append((slot, record))
            new = turn is None
            while turn is None and taken < len(self._order):
                turn = self._turn(int(self._order[taken]), 0)
                taken += 1
            if turn is not None:
                turns.append((slot, new, turn))
        for slot, records in ended if self._next_round else []:
            slot.end(records)
        for slot, new, (shard, record, given) in turns:
            if new:
                slot.open(shard, self._next_round)
            if given < self._stride:
                slot.end(record + given)
        self._taken = taken
        self._open = [slot for slot, _, _ in turns]
        if turns:
            self._add(1, sum(given for _, _, (_, _, given) in turns), whole=False)

    def _turn(self, shard: int, record: int) -> Turn | None:
        """None: the shard has no record from this one on."""
        given = min(self._stride, self._up_to(shard, record + self._stride) - record)
        return (shard, record, given) if given > 0 else None


def _joined(parts: list[Places]) -> Places:
    if not parts:
        nothing = torch.empty(0, dtype=torch.int64, device="cpu")
        return nothing, nothing
    return torch.cat([shards for shards, _ in parts]), torch.cat([records for _, records in parts])


def _pairs(places: Places) -> list[tuple[int, int]]:
    return list(zip(places[0].tolist(), places[1].tolist()))
