"""Lines for the terminal that one process of a host says, for all processes of a job there."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from .disk_cache import DiskCache, cache_folder

_MOST_BYTES = 1 << 20  # one a line
_here: set[str] = set()


def say_once(host: str, line: str) -> None:
    """host: a text that the processes of the job on this host share; empty: this process is alone."""
    if line in _here:
        return
    _here.add(line)

    def say(path: Path) -> None:
        print(line, file=sys.stderr, flush=True)
        path.write_bytes(b"\n")

    with contextlib.suppress(OSError):
        if host:
            DiskCache(cache_folder() / "said", _MOST_BYTES).using(f"{host} {line}", say, lambda path: None)
            return
    print(line, file=sys.stderr, flush=True)
