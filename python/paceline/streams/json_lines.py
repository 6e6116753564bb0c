"""Files of JSON, one record a line."""

from __future__ import annotations

import json
import mmap
import os
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ..errors import PacelineError
from .files import Files, find_files

_MOST_OPEN = 64
_ENDINGS = (".jsonl", ".ndjson", ".json")


class _File:
    """The lines of one file that have something in them."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                self.text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else b""
        except OSError as error:
            raise PacelineError(f"{path} cannot be read: {error.strerror}; name files that can") from error
        if self.text[:2] == b"\x1f\x8b" or self.text[:4] == b"\x28\xb5\x2f\xfd":
            raise PacelineError(f"{path} is compressed; unpack it, so that each line can be found without the others")
        self.starts = array("q")
        begin = 0
        while begin < self.size:
            end = self.text.find(b"\n", begin)
            end = self.size if end < 0 else end
            if self.text[begin:end].strip():
                self.starts.append(begin)
            begin = end + 1

    def line(self, record: int) -> bytes:
        begin = self.starts[record]
        end = self.text.find(b"\n", begin)
        return bytes(self.text[begin : self.size if end < 0 else end])


class JsonLines:
    """Each file is a shard, and each line that is not empty is a record."""

    sized = True

    def __init__(self, files: Files) -> None:
        self._files = find_files(files, _ENDINGS)
        self._lengths: dict[int, int] = {}
        self._open: OrderedDict[int, _File] = OrderedDict()

    def __repr__(self) -> str:
        return f"JsonLines of {len(self._files)} files"

    def shards(self) -> Sequence[str]:
        return self._files

    def up_to(self, shard: int, most: int) -> int:
        if shard not in self._lengths:
            self._file(shard)
        return min(most, self._lengths[shard])

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        file = self._file(shard)
        return [self._record(file, shard, record) for record in records]

    def _record(self, file: _File, shard: int, record: int) -> Any:
        try:
            return json.loads(file.line(record))
        except ValueError as error:
            line = file.text[: file.starts[record]].count(b"\n") + 1
            raise PacelineError(f"{self._files[shard]}:{line}: this is no JSON ({error}); mend the line") from error

    def _file(self, shard: int) -> _File:
        if shard not in self._open:
            file = _File(self._files[shard])
            known = self._lengths.setdefault(shard, len(file.starts))
            if known != len(file.starts):
                raise PacelineError(
                    f"{self._files[shard]} has {len(file.starts)} records, and had {known} before; begin a new run, "
                    "with files that stay as they are"
                )
            self._open[shard] = file
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(shard)
        return self._open[shard]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": OrderedDict()}
