"""A file in the host's memory, and views of it that a process may write to."""

from __future__ import annotations

import errno
import mmap
import os
from typing import Any

import pytest
import torch

from paceline.file_memory import FileMemory

_TERABYTE = 1 << 40


def _memory(size: int, values: torch.Tensor) -> FileMemory:
    fd = os.memfd_create("weights")
    os.truncate(fd, size)
    os.pwrite(fd, values.numpy().tobytes(), mmap.PAGESIZE)
    memory = FileMemory(1, f"/proc/self/fd/{fd}", size, False, 1, True)
    os.close(fd)
    return memory


def _check_own_view(memory: FileMemory, values: torch.Tensor) -> None:
    own = memory.own_view(mmap.PAGESIZE, values.numel(), torch.float32)
    assert torch.equal(own, values)
    own += 1
    assert torch.equal(own, values + 1)
    assert torch.equal(memory.view(mmap.PAGESIZE, values.numel(), torch.float32), values)


def test_a_view_that_a_process_may_write_to_is_its_own() -> None:
    values = torch.arange(1000, dtype=torch.float32)
    _check_own_view(_memory(2 * mmap.PAGESIZE, values), values)


def test_a_sparse_file_may_be_larger_than_memory() -> None:
    values = torch.arange(1000, dtype=torch.float32)
    _check_own_view(_memory(8 * _TERABYTE, values), values)


def test_a_system_that_counts_the_whole_file_gives_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.arange(1000, dtype=torch.float32)
    memory = _memory(2 * mmap.PAGESIZE, values)

    def refused(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mmap, "mmap", refused)
    _check_own_view(memory, values)
