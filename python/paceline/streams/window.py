"""The records of a source that are in memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

_ALL = 1 << 62

Key = tuple[int, int]  # shard and record


class Window:
    """The newest records that somebody asked for, and others that were read ahead; fewer than twice `most`.

    A record that was read ahead puts none out that somebody asked for, however far apart their shards are. The first
    ones that go are those that were given already: nobody wants them again, unless their worker dies.
    """

    def __init__(self, most: int) -> None:
        """most: twice the records of a block."""
        self._most = most
        self._most_asked = most + most // 4  # two blocks, and the rounds of the order that reach over their ends
        self._waiting: OrderedDict[Key, Any] = OrderedDict()  # asked for, in this order
        self._given: OrderedDict[Key, Any] = OrderedDict()
        self._ahead: dict[int, OrderedDict[int, Any]] = {}  # key: shard; its records ascend
        self._are_ahead = 0
        self._count = 0  # the number of all records that were asked for so far
        self._last: dict[int, int] = {}  # this count when a shard that has records ahead was asked for

    def __len__(self) -> int:
        return len(self._waiting) + len(self._given) + self._are_ahead

    def put(self, shard: int, record: int, value: Any) -> None:
        """The record is kept, and somebody has asked for it."""
        key = shard, record
        self._given.pop(key, None)
        self._waiting[key] = value
        self._waiting.move_to_end(key)  # the record may be here since the pass before
        self._count += 1
        if len(self._waiting) + len(self._given) > self._most_asked:
            (self._given or self._waiting).popitem(last=False)

    def put_ahead(self, shard: int, record: int, value: Any) -> None:
        """The record is kept, though nobody has asked for it yet."""
        for records in (self._waiting, self._given):
            records.pop((shard, record), None)  # the value of the pass before
        if shard in self._ahead and record <= next(reversed(self._ahead[shard])):  # another pass has begun
            self.asks(shard, _ALL)
        self._ahead.setdefault(shard, OrderedDict())[record] = value
        self._are_ahead += 1
        self._last.setdefault(shard, self._count)

    def asks(self, shard: int, end: int) -> None:
        """Somebody asks for the records of a shard before `end`."""
        of_shard = self._ahead.get(shard)
        if of_shard is None:
            return
        self._last[shard] = self._count
        while of_shard and next(iter(of_shard)) < end:
            self._are_ahead -= 1
            self.put(shard, *of_shard.popitem(last=False))
        if not of_shard:
            del self._ahead[shard], self._last[shard]

    def room(self) -> int:
        """Returns how many further records may be read ahead."""
        if self._are_ahead >= self._most // 2:
            # Other hosts may have got the last records of a shard, so nobody asks for them here.
            for shard in [one for one, count in self._last.items() if self._count - count > self._most]:
                self.asks(shard, _ALL)
        return self._most // 2 - self._are_ahead

    def __getitem__(self, key: Key) -> Any:
        for records in (self._waiting, self._given):
            if key in records:
                return records[key]
        return self._ahead[key[0]][key[1]]

    def has(self, shard: int, record: int) -> bool:
        """Whether a record that was asked for is here."""
        return (shard, record) in self._waiting or (shard, record) in self._given

    def take(self, shard: int, record: int) -> Any:
        """Returns a record, which is here no more. Requires: has()."""
        key = shard, record
        return self._waiting.pop(key) if key in self._waiting else self._given.pop(key)

    def give(self, shard: int, record: int) -> Any:
        """Returns a record, which stays here. Requires: has()."""
        key = shard, record
        if key in self._waiting:
            self._given[key] = self._waiting.pop(key)
        return self._given[key]
