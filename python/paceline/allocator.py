"""Keeps memory that a step frees for the next step.

glibc returns large blocks to the kernel at once, and each step then waits for the kernel to clear them again. That
costs more than any copy does.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST = 32 * 1024 * 1024  # the largest M_MMAP_THRESHOLD that glibc takes


def return_freed_memory() -> None:
    """Gives the kernel what is free now, for example the memory of weights that a stage does not compute with."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)


@cache
def keep_freed_memory() -> bool:
    """True if the C library is glibc and accepted the settings, which a fork inherits."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return False
    return bool(libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST)) and bool(libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
