"""A file in the host's memory that Paceline shares with this process."""

from __future__ import annotations

import functools
import mmap
import os
import warnings
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_NO_RESERVE = 0x4000  # Linux's MAP_NORESERVE, which Python names from 3.13 on


class FileMemory:
    on_card = False

    def __init__(self, number: int, path: str, size: int, write: bool, generation: int, near: bool) -> None:
        self.number = number
        self.size = size
        self.writable = write
        self.generation = generation
        self.near = near
        fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)
        weakref.finalize(self, os.close, fd)
        self._fd = fd
        self._map = mmap.mmap(fd, size, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ)

    def view(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A flat tensor over this memory, with a storage of its own."""
        import torch

        if count == 0:
            return torch.empty(0, dtype=dtype)
        if self.writable:
            return torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")
            return torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset)

    def own_view(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """The same, and this process may write to it: the kernel then copies the page, and nobody else sees that.

        Nobody else may write to the file any more.
        """
        import torch

        if count == 0:
            return torch.empty(0, dtype=dtype)
        if self._own is None:
            return self.view(offset, count, dtype).clone()
        return torch.frombuffer(self._own, dtype=dtype, count=count, offset=offset)

    @functools.cached_property
    def _own(self) -> mmap.mmap | None:
        """None if the system has no room for it.

        Most of the file may be a hole, and all of it larger than memory: without the flag Linux would count it all.
        """
        try:
            flags = mmap.MAP_PRIVATE | _NO_RESERVE
            return mmap.mmap(self._fd, self.size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        except OSError:  # vm.overcommit_memory = 2 counts it in any case
            return None

    @functools.cached_property
    def bytes(self) -> torch.Tensor:
        """All of it, as one tensor: a slice of it costs less than a view."""
        import torch

        return self.view(0, self.size, torch.uint8)

    @property
    def raw(self) -> mmap.mmap:
        return self._map

    def write(self, offset: int, source: torch.Tensor) -> None:
        self.view(offset, source.numel(), source.dtype).copy_(source.reshape(-1))
