"""safetensors files: one written piece by piece beside the training, and the tensors of one as views.

The package needs no other one for that.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import queue
import struct
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .digests import flat_bytes
from .errors import PacelineError
from .held_files import close_held, open_held

PIECE = 32 * 1024 * 1024  # bytes
_AHEAD = 2  # pieces that wait for the disk
_LONGEST_HEADER = 100_000_000
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


class TensorFile:
    """The tensors of a file, without a copy. `with` closes it."""

    def __init__(self, path: str) -> None:
        """Raises OSError if it cannot be read, and a PacelineError if it is no such file."""
        self._path = path
        with open(path, "rb") as file:
            start = file.read(8)
            size = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 0 < size <= _LONGEST_HEADER:
                raise PacelineError(f"{path}: is no safetensors file; {_WRITE_IT}")
            try:
                self._header: dict[str, Any] = json.loads(file.read(size))
            except ValueError as error:
                raise PacelineError(f"{path}: is no safetensors file; {_WRITE_IT}") from error
            self._begin = 8 + size
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __contains__(self, name: str) -> bool:
        return name in self._header and name != "__metadata__"

    def shape(self, name: str) -> list[int]:
        return [int(extent) for extent in self._header[name]["shape"]]

    def type(self, name: str) -> str:
        return str(self._header[name]["dtype"])

    def view(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """The tensor must have this type."""
        begin, end = self._header[name]["data_offsets"]
        count = int(torch.Size(self.shape(name)).numel())
        size = torch.empty(0, dtype=dtype).element_size()
        if end - begin != count * size or self._begin + end > len(self._map):
            raise PacelineError(f"{self._path}: the file is damaged, or was not copied as a whole; {_WRITE_IT}")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")
            flat = torch.frombuffer(self._map, dtype=torch.uint8, count=end - begin, offset=self._begin + begin)
        if flat.data_ptr() % size:
            flat = flat.clone()
        return flat.view(dtype).view(self.shape(name))
