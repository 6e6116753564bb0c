"""The socket between this process and its worker, or between the processes of a worker: one JSON object a line.

The descriptor belongs to this process alone. Processes that it forks close it, and processes that it
executes never have it: so the other side sees at once when this process dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import weakref
from typing import Any, Callable, NoReturn

from .errors import PacelineError
from .launching import in_child_process, leave_at_once

Message = dict[str, Any]

VARIABLE = "PACELINE_PROGRAM_FD"
MAX_LINE = 16 * 1024 * 1024
_LOOK_SECONDS = 1.0

_CHANNELS: weakref.WeakSet[Channel] = weakref.WeakSet()  # the channels of this process


class Channel:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()
        # While nothing comes, read() calls this each second: it may raise, as the worker may wait for this process.
        self.while_waiting: Callable[[], None] = lambda: None
        _CHANNELS.add(self)
        os.set_inheritable(fd, False)
        os.set_blocking(fd, True)

    def read(self) -> Message | None:
        """The next message, or None once the worker is gone."""
        searched = 0
        while True:
            end = self._buffer.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return _parse(line)
            searched = len(self._buffer)
            if searched > MAX_LINE:
                raise PacelineError("the worker sent a line of more than 16 MiB")
            if self._fd < 0:
                return None
            while not self._has_bytes(_LOOK_SECONDS):
                self.while_waiting()
            try:
                chunk = os.read(self._fd, 1 << 18)
            except ConnectionError:
                chunk = b""
            if not chunk:
                return None
            self._buffer += chunk

    def end_process(self) -> NoReturn:
        """Ends this process, which was only asked what the model is."""
        leave_at_once()

    def ready(self, seconds: float) -> bool:
        """Whether read() would return at once, within this time."""
        return b"\n" in self._buffer or self._fd < 0 or self._has_bytes(seconds)

    def _has_bytes(self, seconds: float) -> bool:
        poll = select.poll()  # select() knows no descriptor above 1023
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def write(self, message: Message) -> bool:
        """False if nobody listens any more."""
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = memoryview(text.encode("utf-8", "replace") + b"\n")
        if len(line) > MAX_LINE:
            raise PacelineError(f"a message of type {message['type']!r} has more than 16 MiB")
        while line:
            if self._fd < 0:
                return False
            try:
                line = line[os.write(self._fd, line) :]
            except (BrokenPipeError, ConnectionError):
                return False
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _parse(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise PacelineError(f"the worker sent a line that is not JSON: {error}") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise PacelineError("the worker sent a message without a type")
    return message


def _descriptor() -> int | None:
    text = os.environ.get(VARIABLE)
    if text is None or in_child_process():  # there it is the number of something else
        return None
    try:
        fd = int(text)
        os.fstat(fd)
    except (ValueError, OSError):
        raise PacelineError(f"{VARIABLE}={text} names no open descriptor") from None
    return fd


_channel: Channel | None = None


def open_channel() -> Channel | None:
    """This process's channel; None if no worker started it."""
    global _channel
    if _channel is None:
        fd = _descriptor()
        if fd is not None:
            _channel = Channel(fd)
            # A training script that this program starts has no such descriptor, and is a job of its own.
            os.environ.pop(VARIABLE, None)
    return _channel


def _close_in_child() -> None:
    for channel in list(_CHANNELS):
        channel.close()


os.register_at_fork(after_in_child=_close_in_child)
with contextlib.suppress(PacelineError):  # join() says it
    open_channel()  # at import, as a program may fork data loaders before it joins
