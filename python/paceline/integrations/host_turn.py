"""Work that the processes of a job on one host do one after the other."""

from __future__ import annotations

import hashlib
import math
import os
import socket
import sys
import time

from ..streams.host_source import closed_in_a_fork

_TRY_SECONDS = 0.1
_QUIET_SECONDS = 30


class HostTurn:
    """The turn of this process. A process that ends gives it to the next one."""

    def __init__(self) -> None:
        self._held: socket.socket | None = None

    def take(self, host_folder: str, what: str) -> None:
        """Waits for the turn. host_folder: the run's on this host; without one nobody waits. what: "to do this"."""
        if not host_folder or self._held is not None:
            return
        name = hashlib.blake2b(os.fsencode(os.path.realpath(host_folder)), digest_size=8).hexdigest()
        held = closed_in_a_fork(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        say_at = time.monotonic() + _QUIET_SECONDS
        while True:
            try:
                held.bind(f"\0paceline-turn-{os.getuid()}-{name}")
                break
            except OSError:  # another process has it
                time.sleep(_TRY_SECONDS)
            if time.monotonic() > say_at:
                print(f"paceline: this process waits for another one of the job on this host {what}", file=sys.stderr)
                say_at = math.inf
        self._held = held

    def give(self) -> None:
        if self._held is not None:
            self._held.close()
        self._held = None
