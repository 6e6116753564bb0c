"""A process that dies with the one that started it."""

from __future__ import annotations

import ctypes
import signal
import sys

_LIBC = ctypes.CDLL(None)  # loaded before a fork, as other threads may hold the loader's lock in a child
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Called in the new process. SIGKILL ends it when its parent ends, however that happens. Linux only."""
    if sys.platform.startswith("linux"):
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
