"""Descriptors of this process that hold locks.

A fork closes them at once: otherwise it would hold the locks of a process that has died, or another thread's, as long
as the fork lives.
"""

from __future__ import annotations

import os
from pathlib import Path

_HELD: set[int] = set()


def open_held(path: str | Path, mode: int) -> int:
    """A descriptor of the file, which may be new and is no link, to read and write it. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    _HELD.add(descriptor)
    return descriptor


def close_held(descriptor: int) -> None:
    _HELD.discard(descriptor)
    os.close(descriptor)


def _close_all() -> None:
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


os.register_at_fork(after_in_child=_close_all)
