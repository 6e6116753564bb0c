"""JSON lines: one record a line."""

from __future__ import annotations

import codecs
import json
from array import array
from collections.abc import Sequence
from typing import Any, BinaryIO

from .files import Files, Opened, Paths, bytes_at, refuse_compressed
from .source import Damaged, changed

_PIECE = 1 << 20  # bytes


class JsonLines(Files):
    """Records of .jsonl files, by default as json.loads() gives them; lines of spaces only are no records.

    The first use of a file reads it once a host for the places of its lines: 8 bytes of memory each.
    """

    def __init__(self, files: Paths) -> None:
        super().__init__(files, (".jsonl", ".ndjson", ".json"))
        refuse_compressed(self.files)
        self._begins = Opened(self._index, most=1024, keep=True)
        self._opened: Opened[BinaryIO] = Opened(self._open)

    def length(self, shard: int) -> int:
        return len(self._begins.get(shard)) - 1

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        begins = self._begins.get(shard)
        file = self._opened.get(shard)
        found = []
        for record in records:
            # Lines of spaces that follow it come along.
            begin, end = begins[record], begins[record + 1]
            line = bytes_at(file, begin, end - begin)
            if len(line) < end - begin:
                raise changed(self.files[shard], len(begins) - 1, record)
            try:
                found.append(json.loads(line.decode("utf-8")))
            except (ValueError, RecursionError) as error:
                raise self._damaged(shard, begins[record], error) from error
        return found

    def _open(self, shard: int) -> BinaryIO:
        self.size(shard)
        return self.using(shard, lambda path: open(path, "rb"))

    def _index(self, shard: int) -> array[int]:
        index = array("q")
        index.frombytes(self.kept_index(shard, "lines 2", lambda: self._find_lines(shard).tobytes()))
        return index

    def _find_lines(self, shard: int) -> array[int]:
        """The places of the lines that are records, and the file's end."""
        begins = array("q")
        begin = 0
        with self._open(shard) as file:
            if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
                begin = len(codecs.BOM_UTF8)
            file.seek(begin)
            for line in file:
                if not line.isspace():
                    begins.append(begin)
                begin += len(line)
        begins.append(begin)
        return begins

    def _damaged(self, shard: int, begin: int, error: Exception) -> Damaged:
        line = 1
        with self._open(shard) as file:
            while piece := file.read(min(begin, _PIECE)):  # a file may be larger than memory
                line += piece.count(b"\n")
                begin -= len(piece)
        return Damaged(
            f"line {line} of {self.files[shard]} is no JSON: {error}; repair it, or leave it out of the file"
        )
