"""Deaths of loader processes, which show within a second whatever else the program does.

torch hears of them by SIGCHLD, for which a program may have a handler of its own. Without that signal it asks Python
each 5 seconds, and Python takes a dead process for one that runs if SIGCHLD is ignored, or if the program's handler
has asked for its exit status. And it waits without a limit for the rest of a batch whose sender has died.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import weakref
from typing import Any, Callable

from .errors import PacelineError

_LOOK_SECONDS = 1.0


class LoaderDeaths:
    def __init__(self, batches: Any) -> None:
        """batches: a DataLoader's iterator, whose processes have just been started."""
        self._processes = list(batches._workers)
        self._watched: list[int] = []  # a descriptor of each process; none if this system has no such descriptors
        with contextlib.suppress(OSError, AttributeError):
            for process in self._processes:
                self._watched.append(os.pidfd_open(process.pid))
        self._watch(batches)

    def check(self) -> None:
        """Raises a PacelineError if a loader process has died."""
        dead = [one for number, one in enumerate(self._processes) if self._has_ended(number)]
        if not dead:
            return
        code = dead[0].exitcode  # none if somebody else has asked for it
        how = "has died"
        if code is not None:
            how = f"was killed ({signal.strsignal(-code)})" if code < 0 else f"has ended (exit status {code})"
        why = "if neither the program nor somebody did that, memory was short: give join() fewer num_workers"
        if code == -signal.SIGBUS:
            why = "/dev/shm is full or too small for its batches: docker run --shm-size=8g, or fewer num_workers"
        raise PacelineError(f"the loader process {dead[0].pid} of this program {how}; {why}")

    def close(self) -> None:
        for descriptor in self._watched:
            os.close(descriptor)
        self._watched, self._processes = [], []

    def _has_ended(self, number: int) -> bool:
        if len(self._watched) < len(self._processes):
            return not self._processes[number].is_alive()
        return _is_readable(self._watched[number], 0)

    def _watch(self, batches: Any) -> None:
        """Makes the iterator look for deaths while it waits for a batch, and for the rest of one.

        It ends its processes as soon as nobody refers to it, so it may not refer to itself.
        """
        ask = _unbound(batches._try_get_data)

        def try_get(timeout: float = 5.0) -> tuple[bool, Any]:
            until = time.monotonic() + timeout
            while True:
                left = until - time.monotonic()
                found: tuple[bool, Any] = ask(max(0.0, min(left, _LOOK_SECONDS)))
                if found[0] or left <= _LOOK_SECONDS:
                    return found
                self.check()

        batches._try_get_data = try_get
        reader = batches._worker_result_queue._reader
        connection = getattr(reader, "conn", reader)
        receive = _unbound(connection._recv)

        def read(handle: int, size: int) -> bytes:
            while not _is_readable(handle, _LOOK_SECONDS):
                self.check()
            return os.read(handle, size)

        connection._recv = lambda size: receive(size, read)


def _unbound(method: Any) -> Callable[..., Any]:
    """The method, which does not keep its object alive."""
    owner, function = weakref.ref(method.__self__), method.__func__
    return lambda *arguments: function(owner(), *arguments)


def _is_readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * seconds))
