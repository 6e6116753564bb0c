"""Gates at which a measured program stops, so that two of them can take turns."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

WARM_UP = 3  # iterations before the first gate


def iterations(every: int, turns: int) -> int:
    """One more than is measured, so that the end of the training is not."""
    return WARM_UP + every * turns + 1


class Gates:
    """The program's side: every so many iterations it says that it is here and waits for its turn."""

    def __init__(self, folder: Path, every: int, finish: Callable[[], object] | None = None) -> None:
        """finish: before it says so it ends what a GPU still has to do."""
        self._every = every
        self._finish = finish
        self._at = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(folder / "gates"))

    def arrive(self) -> None:
        if self._at >= WARM_UP and (self._at - WARM_UP) % self._every == 0:
            if self._finish is not None:
                self._finish()
            self._socket.sendall(b".")
            self._socket.recv(1)
        self._at += 1


class Keeper:
    """The other side of the gates."""

    def __init__(self, folder: Path) -> None:
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / "gates"))
        self._door.listen()
        self._door.settimeout(0.5)

    def expect(self, process: subprocess.Popen[bytes]) -> bool:
        """Waits for the program at its first gate. False: the process has ended instead."""
        while process.poll() is None:
            try:
                self._socket = self._door.accept()[0]
            except TimeoutError:
                continue
            return self.wait()
        return False

    def wait(self) -> bool:
        """Until the program is at the next gate. False: it has ended."""
        return self._socket.recv(1) == b"."

    def let_go(self) -> None:
        self._socket.sendall(b".")
