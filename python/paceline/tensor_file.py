"""safetensors files: one written piece by piece beside the training, and the tensors of one as views.

The package needs no other one for that.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import math
import mmap
import os
import queue
import struct
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from .digests import flat_bytes
from .errors import PacelineError
from .held_files import close_held, open_held

PIECE = 32 * 1024 * 1024  # bytes
_AHEAD = 2  # pieces that wait for the disk
_LONGEST_HEADER = 100_000_000
_MOST = 1 << 60  # numbers in a tensor, whose bytes PyTorch counts in 64 bits
_WRITE_IT = "write it with safetensors, or with paceline export"
_MAKE_ROOM = "make room there, or leave the values out with --set checkpoint.frozen=false"

TYPES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
Named = tuple[str, torch.Tensor]


class TensorFileWriter:
    """Writes tensors to a file that has its name only when it is whole.

    go_on() copies as much to the host's memory as the disk takes at the time, and finish() all the rest. If another
    process writes the same file, this one writes nothing. An error leaves an empty file, because others may need the
    room.
    """

    def __init__(self, path: str, tensors: Sequence[Named]) -> None:
        self._path = path
        self._partial = f"{path}.partial"
        self._error: OSError | None = None
        self._waiting: queue.Queue[torch.Tensor | None] = queue.Queue(_AHEAD)
        self._pieces: Iterator[torch.Tensor] | None = None
        ordered = sorted(tensors, key=lambda one: -one[1].element_size())  # each at an offset that suits its type
        self._header = _header(ordered)
        self._fd = self._open(len(self._header) + sum(_bytes_of(tensor) for _, tensor in ordered))
        if self._fd < 0:
            return
        self._pieces = _pieces([tensor for _, tensor in ordered])
        self._thread = threading.Thread(target=self._write, name="paceline-frozen", daemon=True)
        self._thread.start()

    def _open(self, size: int) -> int:
        """-1 if there is nothing to write."""
        if os.path.exists(self._path):
            return -1
        try:
            fd = open_held(self._partial, 0o644)
        except OSError as error:
            raise self._cannot_write(error) from error
        # Another process may have renamed the file since it was opened here.
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = os.fstat(fd).st_ino == os.stat(self._partial).st_ino
        except OSError:
            mine = False
        if not mine:
            close_held(fd)
            return -1
        os.ftruncate(fd, 0)
        disk = os.fstatvfs(fd)
        room = disk.f_bavail * disk.f_frsize
        if disk.f_blocks and size > room:  # some network disks do not know their size
            close_held(fd)
            raise PacelineError(f"{self._path}: has {size} bytes, and its disk has room for {room}; {_MAKE_ROOM}")
        return fd

    def go_on(self) -> None:
        while self._pieces is not None and not self._waiting.full():
            self._next()

    def finish(self) -> None:
        """Raises an error if the file could not be written."""
        while self._pieces is not None:
            self._next()
        if self._fd >= 0:
            self._thread.join()
            close_held(self._fd)
            self._fd = -1
            if (failed := self.failure()) is not None:
                raise failed

    def failure(self) -> PacelineError | None:
        """Why the file cannot be written, once that is known."""
        return None if self._error is None else self._cannot_write(self._error)

    def _cannot_write(self, error: OSError) -> PacelineError:
        return PacelineError(f"{self._path}: cannot be written: {error.strerror}; {_MAKE_ROOM}")

    def _next(self) -> None:
        assert self._pieces is not None
        piece = next(self._pieces, None) if self._error is None else None
        self._waiting.put(piece)
        if piece is None:
            self._pieces = None

    def _write(self) -> None:
        self._try(_write_all, self._fd, memoryview(self._header))
        while (piece := self._waiting.get()) is not None:
            self._try(_write_all, self._fd, _memory(piece))
        self._try(self._name_it)

    def _name_it(self) -> None:
        os.fsync(self._fd)
        os.rename(self._partial, self._path)

    def _try(self, write: Callable[..., None], *arguments: Any) -> None:
        """Does nothing after an error."""
        if self._error is not None:
            return
        try:
            write(*arguments)
        except OSError as error:
            self._error = error
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _header(tensors: Sequence[Named]) -> bytes:
    described: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors:
        begin, end = end, end + _bytes_of(tensor)
        described[name] = {
            "dtype": TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _pieces(tensors: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    for tensor in tensors:
        flat = flat_bytes(tensor)
        for begin in range(0, flat.numel(), PIECE):
            yield flat[begin : begin + PIECE].cpu()


def _memory(piece: torch.Tensor) -> memoryview:
    return memoryview((ctypes.c_char * piece.numel()).from_address(piece.data_ptr())).cast("B")


def _write_all(fd: int, data: memoryview) -> None:
    while len(data):
        data = data[os.write(fd, data) :]


class _Stored(NamedTuple):
    """A tensor's place in a file, counted from the end of the header."""

    type: str
    shape: list[int]
    begin: int
    end: int


class TensorFile:
    """The tensors of a file, without a copy."""

    def __init__(self, path: str) -> None:
        """Raises OSError if it cannot be read, and a PacelineError if it is no such file, or a damaged one."""
        self._path = path
        with open(path, "rb") as file:
            start = file.read(8)
            size = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 0 < size <= _LONGEST_HEADER:
                raise self._is_none()
            try:
                header: Any = json.loads(file.read(size))
            except (ValueError, RecursionError) as error:  # RecursionError: lists in lists in lists
                raise self._is_none() from error
            if not isinstance(header, dict):
                raise self._is_none()
            self._begin = 8 + size
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._stored = {name: self._checked(one) for name, one in header.items() if name != "__metadata__"}
        end = 0
        for one in sorted(self._stored.values(), key=lambda one: (one.begin, one.end)):
            if one.begin < end:  # two tensors have the same bytes
                raise self._is_damaged()
            end = one.end
        if self._begin + end > len(self._map):
            raise self._is_damaged()

    def _is_none(self) -> PacelineError:
        return PacelineError(f"{self._path}: is no safetensors file; {_WRITE_IT}")

    def _is_damaged(self) -> PacelineError:
        return PacelineError(f"{self._path}: the file is damaged, or was not copied as a whole; {_WRITE_IT}")

    def _checked(self, described: Any) -> _Stored:
        if not isinstance(described, dict):
            raise self._is_damaged()
        name: Any = described.get("dtype")
        shape: Any = described.get("shape")
        place: Any = described.get("data_offsets")
        good = isinstance(name, str) and _are_counts(shape) and _are_counts(place) and len(place) == 2
        if not good or place[0] > place[1] or math.prod(max(1, extent) for extent in shape) > _MOST:
            raise self._is_damaged()
        return _Stored(name, shape, *place)

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def shape(self, name: str) -> list[int]:
        return self._stored[name].shape

    def type(self, name: str) -> str:
        return self._stored[name].type

    def view(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """The tensor must have this type."""
        _, shape, begin, end = self._stored[name]
        size = torch.empty(0, dtype=dtype).element_size()
        if end - begin != math.prod(shape) * size:
            raise self._is_damaged()
        if begin == end:  # torch.frombuffer() refuses no bytes
            return torch.empty(shape, dtype=dtype)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")
            flat = torch.frombuffer(self._map, dtype=torch.uint8, count=end - begin, offset=self._begin + begin)
        if flat.data_ptr() % size:
            flat = flat.clone()
        return flat.view(dtype).view(shape)


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int and 0 <= one <= _MOST for one in value)
