"""Copies of files that are read soon, made by a thread while others are read."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Sequence

from .remote import Remote


class Ahead:
    """One thread a process, begun when there is something to copy. A copy that fails is tried again by the reader."""

    def __init__(self) -> None:
        self._pid = 0  # the thread's process
        self._newest: set[str] = set()
        self._wanted: queue.SimpleQueue[tuple[Remote, str]] = queue.SimpleQueue()

    def fetch(self, remote: Remote, addresses: Sequence[str]) -> None:
        if self._pid != os.getpid():  # a fork has no threads of its parent
            self._newest, self._wanted = set(), queue.SimpleQueue()
            threading.Thread(target=_copy, args=(self._wanted,), daemon=True).start()
            self._pid = os.getpid()
        for address in addresses:
            if address not in self._newest:
                self._wanted.put((remote, address))
        self._newest = set(addresses)

    def __reduce__(self) -> tuple[type[Ahead], tuple[()]]:
        return Ahead, ()


def _copy(wanted: queue.SimpleQueue[tuple[Remote, str]]) -> None:
    while True:
        remote, address = wanted.get()
        with contextlib.suppress(Exception):
            remote.using(address, lambda path: None)
