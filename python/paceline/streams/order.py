"""The order of a stream: which record of which shard stands at a position of an epoch."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Callable

from ..errors import PacelineError
from ..seeding import mix
from .shuffling import shuffled

Piece = tuple[int, int, int]  # shard, first record, records
Place = tuple[int, int]  # shard, record

_KEPT = 2  # epochs, and blocks: readers are in the last one or in the one before it


class BaseOrder:
    """One epoch's order before blocks are shuffled.

    Slots give in turn: `stride` records of the slot's shard, fewer at the shard's end. A slot that has none takes the
    next shard of the list that is not empty at its turn; if no shard is left, it gives nothing from then on. A round
    is one turn of each slot.

    Rounds are alike until a shard begins or ends; only the rounds where that happens are kept. So a position costs a
    search among them, however many records there are.
    """

    def __init__(self, shards: Sequence[int], length: Callable[[int], int], slots: int, stride: int) -> None:
        self._shards = shards
        self._length = length
        self._stride = stride
        self._next = 0  # in shards
        # Each slot's shards: the round in which it takes the shard, the shard, the shard's length.
        self._taken: list[tuple[list[int], list[int], list[int]]] = [([], [], []) for _ in range(slots)]
        self._rounds: list[int] = []  # the ones in which a shard begins or ends
        self._positions: list[int] = []  # at the beginning of these rounds
        self._width = 0  # records in each round from the last of these on, until the next event
        self._whole = 0  # slots that give a whole stride
        self._gives_whole = [False] * slots
        # (round, slot) of what happens next; a heap
        self._events = [(0, slot) for slot in range(slots)]

    def pieces(self, begin: int, end: int) -> Iterator[Piece]:
        """Yields the runs of records that make up the positions [begin, end), or up to the epoch's end.

        Asks for the lengths of the shards that have a turn in a round up to the last position's, and no others.
        """
        position = begin
        while position < end:
            segment = self._segment(position)
            if segment is None:
                return
            row = self._row(segment)
            width = sum(give for _, _, give in row)
            in_round, inside = divmod(position - self._positions[segment], width)
            stop = min(end, self._end(segment))
            while position < stop:
                for shard, given, give in row:
                    if inside >= give:
                        inside -= give
                        continue
                    # Whole strides go on from round to round; a shorter piece is alone in its segment.
                    first = given + in_round * self._stride + inside
                    records = min(give - inside, stop - position)
                    if records == 0:
                        break
                    yield shard, first, records
                    position += records
                    inside = 0
                in_round += 1

    def length(self) -> int:
        """Returns the records of the epoch; asks for all lengths."""
        while self._events:
            self._advance()
        return self._positions[-1] if self._positions else 0

    def known_length(self) -> int | None:
        """Returns the records of the epoch if all lengths have been asked for, and None otherwise."""
        return None if self._events else self.length()

    def _segment(self, position: int) -> int | None:
        """The last of the kept rounds that begins at the position or before it, and has records."""
        while self._events and self._end_known() <= position:
            self._advance()
        if position >= self._end_known():
            return None
        # A round without records begins where the next one does, so the last one is right.
        return bisect_right(self._positions, position) - 1

    def _end(self, segment: int) -> int:
        """The position at the end of a kept round and of the rounds like it."""
        following = segment + 1
        return self._positions[following] if following < len(self._positions) else self._end_known()

    def _end_known(self) -> int:
        """The position at the next event's round."""
        if not self._rounds:
            return 0
        rounds = self._events[0][0] - self._rounds[-1] if self._events else 0
        return self._positions[-1] + rounds * self._width

    def _advance(self) -> None:
        """Goes through the next round in which a shard begins or ends."""
        position = self._end_known()
        now = self._events[0][0]
        parts = 0  # records of pieces that are shorter than a stride
        while self._events and self._events[0][0] == now:
            _, slot = heapq.heappop(self._events)
            parts += self._turn(now, slot)
        self._rounds.append(now)
        self._positions.append(position)
        self._width = self._whole * self._stride + parts

    def _turn(self, now: int, slot: int) -> int:
        """A slot's event. Returns the records of this turn if they are fewer than a stride, and 0 otherwise."""
        rounds, shards, lengths = self._taken[slot]
        if self._gives_whole[slot]:
            self._gives_whole[slot] = False
            self._whole -= 1
            rest = lengths[-1] % self._stride
            if rest:
                heapq.heappush(self._events, (now + 1, slot))
                return rest
        length = 0
        while length == 0 and self._next < len(self._shards):
            shard = self._shards[self._next]
            length = self._length(shard)
            self._next += 1
        if length == 0:
            return 0
        rounds.append(now)
        shards.append(shard)
        lengths.append(length)
        if length < self._stride:
            heapq.heappush(self._events, (now + 1, slot))
            return length
        self._gives_whole[slot] = True
        self._whole += 1
        heapq.heappush(self._events, (now + length // self._stride, slot))
        return 0

    def _row(self, segment: int) -> list[Piece]:
        """Returns the piece of each slot in the first round of a segment."""
        now = self._rounds[segment]
        row = []
        for rounds, shards, lengths in self._taken:
            index = bisect_right(rounds, now) - 1
            if index >= 0:
                given = (now - rounds[index]) * self._stride
                give = min(self._stride, lengths[index] - given)
                if give > 0:
                    row.append((shards[index], given, give))
        return row


class StreamOrder:
    """Maps positions of an epoch to records of shards: a pure function of the seed, the epoch and the lengths.

    Shards are shuffled by (seed, epoch); `interleave` slots give `stride` records each in turn (BaseOrder), and each
    block of `shuffle` positions is shuffled by (seed, epoch, block). If `shuffle` is 0 or None, neither shards nor
    records are shuffled. Not for several threads at once.
    """

    def __init__(
        self,
        shards: int,
        length: Callable[[int], int],
        *,
        seed: int = 0,
        shuffle: int | None = 4096,
        interleave: int = 8,
        stride: int = 16,
        blocks_kept: int = _KEPT,
    ) -> None:
        for name, value, least in (
            ("shuffle", shuffle or 0, 0),
            ("interleave", interleave, 1),
            ("stride", stride, 1),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise PacelineError(f"{name} = {value!r} is no number of this kind; write {least} or more")
        self._shards = shards
        self._length = length
        self._seed = seed
        self._shuffle = shuffle or 0
        self._slots = min(interleave, max(shards, 1))
        self._stride = stride
        self._blocks_kept = blocks_kept
        self._bases: OrderedDict[int, BaseOrder] = OrderedDict()  # keys: epochs
        self._blocks: OrderedDict[tuple[int, int], list[Place]] = OrderedDict()  # keys: epoch and block

    def places(self, epoch: int, begin: int, end: int) -> list[Place]:
        """Returns the (shard, record) of each position in [begin, end), and fewer if the epoch ends before.

        Costs a search among the shards, and time in proportion to the blocks that the range is in.
        """
        if not 0 <= begin <= end:
            raise PacelineError(f"[{begin}, {end}) is no range of positions; write 0 <= begin <= end")
        if not self._shuffle:
            return _places(self._base(epoch).pieces(begin, end))
        places: list[Place] = []
        for block in count(begin // self._shuffle):
            first = block * self._shuffle
            if first >= end:
                break
            inside = self._block(epoch, block)
            places += inside[max(begin - first, 0) : end - first]
            if len(inside) < self._shuffle:
                break
        return places

    def length(self, epoch: int = 0) -> int:
        """Returns the records of an epoch; asks for the lengths of all shards."""
        return self._base(epoch).length()

    def known_length(self, epoch: int) -> int | None:
        """Returns the records of an epoch if all lengths have been asked for, and None otherwise."""
        return self._base(epoch).known_length()

    def _base(self, epoch: int) -> BaseOrder:
        if epoch not in self._bases:
            shards: Sequence[int] = range(self._shards)
            if self._shuffle:
                shards = shuffled(self._shards, mix(self._seed, epoch))
            self._bases[epoch] = BaseOrder(shards, self._length, self._slots, self._stride)
            _forget_oldest(self._bases, _KEPT)
        return self._bases[epoch]

    def _block(self, epoch: int, block: int) -> list[Place]:
        """The block's places, shuffled; the last block may have fewer."""
        key = epoch, block
        if key not in self._blocks:
            first = block * self._shuffle
            places = _places(self._base(epoch).pieces(first, first + self._shuffle))
            self._blocks[key] = [places[at] for at in shuffled(len(places), mix(self._seed, epoch, block))]
            _forget_oldest(self._blocks, self._blocks_kept)
        return self._blocks[key]


def _places(pieces: Iterator[Piece]) -> list[Place]:
    return [(shard, record) for shard, first, records in pieces for record in range(first, first + records)]


def _forget_oldest(kept: OrderedDict, most: int) -> None:  # type: ignore[type-arg]
    if len(kept) > most:
        kept.popitem(last=False)
