"""A card's memory, as a server has it: made by the driver in the tests' own process, and given out by descriptor.

The driver is the stand-in, or the real one on a machine with a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import socket
import sys
import threading
import uuid
from ctypes import byref, c_int, c_size_t, c_uint64, c_ulonglong, c_void_p
from typing import Any

import pytest
import torch

STAND_IN = os.environ.get("PACELINE_STAND_IN_DRIVER", "")  # the library
needs_card = pytest.mark.skipif(not STAND_IN, reason="PACELINE_STAND_IN_DRIVER does not name the stand-in driver")
DRIVER_VARIABLE = "PACELINE_CUDA_DRIVER"
ON_CARD = {"PACELINE_DEVICE": "stand-in", DRIVER_VARIABLE: STAND_IN}
ON_GPUS_CARD = {"PACELINE_DEVICE": "cuda", DRIVER_VARIABLE: "libcuda.so.1"}
GRANULARITY = 2 << 20

_numbers = itertools.count()


class _Properties(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", c_int * 2), ("rest", ctypes.c_ubyte * 16)]


class _Access(ctypes.Structure):
    _fields_ = [("location", c_int * 2), ("flags", c_int)]


class Driver:
    def __init__(self, library: str) -> None:
        self.is_stand_in = library == STAND_IN
        if not self.is_stand_in:
            torch.cuda.init()
        self._library = ctypes.CDLL(library)
        self("cuInit", c_int(0))
        context = c_void_p()
        self("cuDevicePrimaryCtxRetain", byref(context), c_int(0))
        self("cuCtxSetCurrent", context)

    def __call__(self, function: str, *arguments: Any) -> None:
        code = getattr(self._library, function)(*arguments)
        assert code == 0, (function, code)

    def uuid(self, card: int) -> str:
        found = (ctypes.c_ubyte * 16)()
        self("cuDeviceGetUuid_v2", byref(found), c_int(card))
        return f"GPU-{uuid.UUID(bytes=bytes(found))}"


_drivers: dict[str, Driver] = {}


def driver(library: str = STAND_IN) -> Driver:
    if library not in _drivers:
        _drivers[library] = Driver(library)
    return _drivers[library]


class _Mapped:
    """Addresses of a memory, until the last tensor over it is gone."""

    def __init__(self, owner: Driver, address: int, size: int) -> None:
        self._driver, self.address, self._size = owner, address, size

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        if not self._driver.is_stand_in:
            torch.cuda.synchronize()
        address, size = c_uint64(self.address), c_size_t(self._size)
        self._driver("cuMemUnmap", address, size)
        self._driver("cuMemAddressFree", address, size)


class _CudaFloats:
    def __init__(self, mapped: _Mapped, count: int) -> None:
        self.mapped = mapped
        data = (mapped.address, False)
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<f4", "data": data, "version": 3}


class CardMemory:
    def __init__(self, card: Card, number: int, size: int, on: int) -> None:
        self.number = number
        self.bytes = size
        self.allocated = -(-size // GRANULARITY) * GRANULARITY
        self.name = f"board/{next(_numbers)}/{number}"
        self.device = card.driver.uuid(on)
        self._card = card
        handle, address, descriptor = c_ulonglong(), c_uint64(), c_int(-1)
        whole, zero = c_size_t(self.allocated), c_ulonglong(0)
        call = card.driver
        call("cuMemCreate", byref(handle), whole, byref(_Properties(1, 1, (c_int * 2)(1, on))), zero)
        call("cuMemExportToShareableHandle", byref(descriptor), handle, c_int(1), zero)
        call("cuMemAddressReserve", byref(address), whole, c_size_t(0), c_uint64(0), zero)
        call("cuMemMap", address, whole, c_size_t(0), handle, zero)
        call("cuMemSetAccess", address, whole, byref(_Access((c_int * 2)(1, on), 3)), c_size_t(1))
        call("cuMemRelease", handle)
        self.fd = card.descriptors[self.name] = descriptor.value
        card.sizes[self.name] = self.allocated
        mapped = _Mapped(card.driver, address.value, self.allocated)
        if card.driver.is_stand_in:
            self.map = (ctypes.c_ubyte * size).from_address(address.value)
            self.map.mapped = mapped  # type: ignore[attr-defined]
            self.floats = torch.frombuffer(self.map, dtype=torch.float32)
        else:
            self.floats = torch.as_tensor(_CudaFloats(mapped, size // 4), device=f"cuda:{on}")

    def message(self, write: bool) -> dict[str, Any]:
        return {
            "type": "map",
            "memory": self.number,
            "kind": "cuda",
            "device": self.device,
            "bytes": self.bytes,
            "socket": self._card.address,
            "name": self.name,
            "write": write,
        }

    def close(self) -> None:
        # Its addresses stay: a test may still hold tensors over them.
        os.close(self._card.descriptors.pop(self.name))


class Card:
    """Gives descriptors out over a socket."""

    def __init__(self, library: str) -> None:
        self.driver = driver(library)
        self.address = f"@paceline-test-{os.getpid()}-{next(_numbers)}"
        self.descriptors: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.answers: dict[str, bytes] = {}  # in place of a descriptor
        self._listen()

    def _listen(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind("\0" + self.address[1:])
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def leave(self, seconds: float) -> None:
        """Nobody listens at the address for so long, as when a server is killed and another one takes its place."""
        self.close()
        threading.Timer(seconds, self._listen).start()

    def memory(self, number: int, size: int, on: int = 0) -> CardMemory:
        return CardMemory(self, number, size, on)

    def settle(self) -> None:
        """Waits until the program can read all that the test has written."""
        if not self.driver.is_stand_in:
            torch.cuda.synchronize()

    def _serve(self) -> None:
        while True:
            try:
                asked, _ = self._socket.accept()
            except OSError:
                return
            with asked, contextlib.suppress(OSError):
                line = asked.makefile("rb").readline().decode()
                assert line.startswith("get ") and line.endswith("\n"), line
                name = line[len("get ") : -1]
                if name in self.answers:
                    asked.sendall(self.answers[name])
                elif name in self.descriptors:
                    answer = f"ok {self.sizes[name]}\n".encode()
                    socket.send_fds(asked, [answer], [self.descriptors[name]])
                else:
                    asked.sendall(f"no there is no memory {name}\n".encode())

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
