"""Reading ahead, while nobody asks a reader for anything."""

from __future__ import annotations

import contextlib
import time
from collections import deque

from .forward import Forward

_TURN_SECONDS = 0.0002
_MOST = 64


class ReadAhead:
    """Shards in turn get as many further records as were asked for last, as far as the source has room for them."""

    def __init__(self, source: Forward) -> None:
        self._source = source
        self._asked: dict[int, int] = {}  # the end of what was asked for
        self._ends: dict[int, int] = {}
        self._turns: deque[int] = deque()
        self._step = 1  # the number of records that are read before the next request is looked for

    def asked(self, shard: int, end: int) -> None:
        """Somebody asked for records of a shard up to this one."""
        before = self._asked.get(shard, 0)
        if end < before and self._source.reached(shard) < before:  # another pass
            before = 0
        step = end - before
        if step <= 0:
            return
        self._asked[shard] = end
        self._ends[shard] = end + min(step, self._source.window // 2)
        if shard not in self._turns:
            self._turns.append(shard)

    def __bool__(self) -> bool:
        return bool(self._turns) and self._source.room_ahead() > 0

    def read_some(self) -> None:
        """Reads records of one shard, for no longer than who asks would notice; one record at least."""
        shard = self._turns.popleft()
        began = time.monotonic()
        with contextlib.suppress(Exception):  # the next one who asks for the record meets it
            if self._source.read_next(shard, self._asked[shard], self._ends[shard], self._step):
                self._turns.append(shard)
        self._step = min(2 * self._step, _MOST) if time.monotonic() - began < _TURN_SECONDS else 1
