"""A process that dies with the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_LIBC = ctypes.CDLL(None)  # loaded before a fork, as other threads may hold the loader's lock in a child
_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Called in the new process: SIGKILL ends it when its parent ends, or if it has ended. Linux only.

    parent: the number of that process.
    """
    if sys.platform.startswith("linux"):
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the line above, so no signal comes
            os.kill(os.getpid(), signal.SIGKILL)
