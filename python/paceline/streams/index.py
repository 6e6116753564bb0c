"""Indices of files: the places of their records, which are found once a host and kept on its disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .disk_cache import DiskCache, cache_folder

_MOST_BYTES = 4 << 30
_DIGEST = 16  # bytes before the index


class _Torn(Exception):
    """An index on the disk is not what was written, as after a loss of power."""


def kept_index(key: str, find: Callable[[], bytes]) -> bytes:
    """Returns the index that `find` makes, from this host's disk if any process has made it before.

    key: says the file, its size and its time, and the kind and version of the index. A disk that is full or cannot
    be written costs time only: the index is made again.
    """
    cache = DiskCache(cache_folder() / "indices", _MOST_BYTES)
    failed: list[Exception] = []

    def make(path: Path) -> None:
        try:
            index = find()
        except Exception as error:
            failed.append(error)
            raise
        path.write_bytes(_digest(index) + index)

    def use(path: Path) -> bytes:
        text = path.read_bytes()
        if _digest(text[_DIGEST:]) != text[:_DIGEST]:
            cache.forget(path)
            raise _Torn
        return text[_DIGEST:]

    try:
        try:
            return cache.using(key, make, use)
        except _Torn:
            return cache.using(key, make, use)
    except (OSError, _Torn) as error:
        if error in failed:
            raise
        return find()


def _digest(index: Any) -> bytes:
    return hashlib.blake2b(index, digest_size=_DIGEST).digest()
