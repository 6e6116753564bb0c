"""The error line for a program that writes to a weight.

The weights of a step are shared with other processes and mapped read-only, so a write ends the process with a
segmentation fault. This handler checks whether the address belongs to a weight. If so, it names the weight and the
line. If not, the earlier handler gets the fault (faulthandler, which prints the Python stack).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Any, Callable

from .failures import Failure, where_in

_ADDRESS_OFFSET = 16  # offset of si_addr in siginfo_t
_WITH_INFO = 4  # SA_SIGINFO
_OPTIMIZERS = os.sep + os.path.join("torch", "optim") + os.sep

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    """struct sigaction of Linux's C libraries with 64 bits."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint8 * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


class WriteGuard:
    """`name_of` says which weight lies at an address; `tell` sends the failure to the worker."""

    def __init__(self, name_of: Callable[[int], str | None], tell: Callable[[Failure], object]) -> None:
        self._name_of = name_of
        self._tell = tell
        self._before = _Action()
        self._libc: Any = None
        self._handler = _Handler(self._fault)

    def install(self) -> None:
        if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
            return
        self._libc = ctypes.CDLL(None)
        action = _Action(handler=ctypes.cast(self._handler, ctypes.c_void_p), flags=_WITH_INFO)
        self._libc.sigaction(int(signal.SIGSEGV), ctypes.byref(action), ctypes.byref(self._before))

    def remove(self) -> None:
        if self._libc is not None:
            self._libc.sigaction(int(signal.SIGSEGV), ctypes.byref(self._before), None)
            self._libc = None

    def _fault(self, _: int, info: int, __: int) -> None:
        address = ctypes.c_uint64.from_address(info + _ADDRESS_OFFSET).value
        name = self._name_of(address)
        if name is None:
            self.remove()  # the write is tried again, and faults again
            return
        frame = _frame_of(threading.get_ident()) or _frame_of(threading.main_thread().ident or 0)
        failure = _failure(name, frame)
        stack = "".join(traceback.format_stack(frame))
        print(f"{stack}paceline: {failure.where}: {failure.text}", file=sys.stderr, flush=True)
        self._tell(failure)
        os._exit(1)


def _frame_of(thread: int) -> FrameType | None:
    """None for a thread of PyTorch's own, which writes to a large tensor together with others."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _failure(name: str, frame: FrameType | None) -> Failure:
    wrote = f"the program wrote to the weight {name}, which is shared and only read; "
    if any(_OPTIMIZERS in caller.f_code.co_filename for caller, _ in traceback.walk_stack(frame)):
        return Failure(
            f"{wrote}an optimizer that join() was not given has stepped: give it one with all parameters, with a "
            "group for each of yours, let each loss reach its own part alone "
            "(loss.backward(inputs=[*part.parameters()])), and let job.step(loss) step it",
            where_in(frame),
        )
    way = 'leave that to the optimizer, or give join() weights="copy" if it may be lost with the next step'
    return Failure(wrote + way, where_in(frame))
