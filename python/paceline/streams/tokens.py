"""Files of token numbers without structure: nanoGPT's .bin, Megatron's .bin with .idx, .npy."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any

import torch

from ..errors import PacelineError
from .files import Files, Opened, Paths, needs
from .remote import without_query
from .source import not_read, unreadable

_SHARD = 4096  # samples
_MEGATRON = b"MMIDIDX\x00\x00"
_HEAD_BYTES = 18
_MEGATRON_TYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16"}


class TokenFile(Files):
    """Windows of token files: (x, y), two tensors of `window` int64, y one token further than x.

    `targets=False`: x alone. `dtype` is a .bin file's; the .idx beside it, or a .npy file, says it itself. Windows
    begin every `stride` tokens, by default `window`, and may go over the ends of documents, not of files. Tokens are
    mapped and not read before they are needed. A shard is 4096 windows of a file.
    """

    def __init__(
        self, path: Paths, window: int, dtype: Any = "uint16", stride: int | None = None, *, targets: bool = True
    ) -> None:
        super().__init__(path, (".bin", ".npy"))
        numpy = needs("numpy", "numpy", "TokenFile")
        for name, value in (("window", window), ("stride", window if stride is None else stride)):
            if not isinstance(value, int) or value < 1:
                raise PacelineError(f"{name} = {value!r} is no number of tokens; write 1 or more")
        self._window, self._stride, self._targets = window, stride or window, targets
        self._dtype = numpy.dtype(dtype)
        self._maps: Opened[Any] = Opened(self._map, most=256)
        self._windows = [self._count(file) for file in range(len(self.files))]
        pieces = [-(-windows // _SHARD) for windows in self._windows]
        self._first_shards = list(accumulate(pieces, initial=0))
        if not self._first_shards[-1]:
            raise PacelineError(f"{self.files[0]} has no window of {self._taken()} tokens; write a smaller window=")

    def shards(self) -> list[str]:
        """Returns the names: the file, and the first of the windows."""
        return [
            f"{self.files[file]} from window {first}" for file, first in map(self._at, range(self._first_shards[-1]))
        ]

    def length(self, shard: int) -> int:
        file, first = self._at(shard)
        return min(self._windows[file] - first, _SHARD)

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        file, first = self._at(shard)
        if not self.are_copies:
            self.size(file)  # the end of a mapped file that shrank cannot be touched: the process would die
        tokens = self._maps.get(file)
        return [self._sample(tokens, (first + record) * self._stride) for record in records]

    def _sample(self, tokens: Any, begin: int) -> Any:
        # A copy: the mapped file cannot be written.
        window = torch.from_numpy(tokens[begin : begin + self._taken()].astype("int64"))
        return (window[:-1], window[1:]) if self._targets else window

    def _taken(self) -> int:
        return self._window + self._targets

    def _at(self, shard: int) -> tuple[int, int]:
        """The file, and the number of the shard's first window in it."""
        file = bisect_right(self._first_shards, shard) - 1
        return file, (shard - self._first_shards[file]) * _SHARD

    def _count(self, file: int) -> int:
        """Returns the windows of a file."""
        if not self.size(file):
            return 0
        return max((len(self._map(file)) - self._taken()) // self._stride + 1, 0)

    def _map(self, file: int) -> Any:
        numpy = needs("numpy", "numpy", "TokenFile")
        name = self.files[file]
        size = self.size(file)

        def mapped(path: str) -> Any:
            if name.endswith(".npy"):
                return numpy.load(path, mmap_mode="r", allow_pickle=False)
            return numpy.memmap(path, self._type_of(name), "r")

        try:
            tokens = self.using(file, mapped)
        except (ValueError, OSError) as error:
            raise not_read(name, error, f"write dtype= of its {size} bytes, or write the file again") from error
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise PacelineError(f"{name} has {tokens.dtype} in {tokens.ndim} dimensions; write one row of integers")
        return tokens.view(numpy.ndarray)  # each slice of a memmap would make a memmap, which takes long

    def _type_of(self, name: str) -> Any:
        """The type of a .bin file's tokens."""
        index = str(PurePosixPath(name).with_suffix(".idx")) if self._remote is None else _index_address(name)
        head = _head_of(index) if self._remote is None else self._remote.head(index, _HEAD_BYTES)
        if head is None or (self._remote is not None and not head.startswith(_MEGATRON)):
            return self._dtype  # some servers answer with a page where nothing is
        if len(head) < _HEAD_BYTES or not head.startswith(_MEGATRON):
            raise unreadable(index, "it is no index of Megatron's", "move it away if the .bin file is nanoGPT's")
        version, code = struct.unpack("<QB", head[9:18])
        if version != 1 or code not in _MEGATRON_TYPES:
            raise unreadable(index, f"version {version} with type {code} is unknown", "write it with version 1")
        return _MEGATRON_TYPES[code]


def _head_of(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except FileNotFoundError:
        return None


def _index_address(address: str) -> str:
    """The address of the .idx beside a .bin file, with the same query."""
    path = without_query(address)
    return path.rpartition(".")[0] + ".idx" + address[len(path) :]
