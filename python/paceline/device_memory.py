"""Memory of a GPU that another process owns: its descriptor comes over a socket, and the CUDA driver maps it.

The driver is called through ctypes, so the package has no compiled part. PACELINE_CUDA_DRIVER names another library
than libcuda.so.1: the tests use a stand-in, whose memory the processor can reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
import uuid
from collections.abc import Iterator
from ctypes import byref, c_int, c_size_t, c_uint64, c_ulonglong, c_void_p
from typing import Any

import torch

from .devices import is_stand_in, number_of_gpu
from .errors import PacelineError

VARIABLE = "PACELINE_CUDA_DRIVER"
USUAL_DRIVER = "libcuda.so.1"
ANSWER_SECONDS = 60.0

# Constants of the driver's interface.
_POSIX_DESCRIPTOR = 1
_DEVICE_LOCATION = 1
_READ, _READ_AND_WRITE = 1, 3
_VIRTUAL_MEMORY = 102
_POSIX_DESCRIPTORS = 103


class _Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", c_int)]


class Driver:
    """The functions of the driver that this package needs. A failed call is a PacelineError of one line."""

    def __init__(self, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise PacelineError(f"the CUDA driver {library} cannot be loaded: {error}") from None
        self._contexts: dict[int, c_void_p] = {}
        self._process = os.getpid()
        self.call("start", "cuInit", c_int(0))

    def call(self, what: str, function: str, *arguments: Any) -> None:
        found = getattr(self._library, function, None)
        if found is None:
            raise PacelineError(f"the CUDA driver cannot {what}: it is too old, and has no {function}")
        code = int(found(*arguments))
        if code != 0:
            raise PacelineError(f"the CUDA driver cannot {what}: {self._in_words(code)}")

    def _in_words(self, code: int) -> str:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(c_int(code), byref(name))
        self._library.cuGetErrorString(c_int(code), byref(text))
        return f"{(name.value or b'unknown error').decode()} ({code}), {(text.value or b'').decode()}"

    def cards(self) -> list[str]:
        """The UUID of each card that this process sees, as nvidia-smi writes it."""
        count = c_int()
        self.call("count the cards", "cuDeviceGetCount", byref(count))
        return [self.uuid_of(card) for card in range(count.value)]

    def uuid_of(self, card: int) -> str:
        found = (ctypes.c_ubyte * 16)()
        self.call(f"say which card number {card} is", "cuDeviceGetUuid_v2", byref(found), c_int(card))
        return f"GPU-{uuid.UUID(bytes=bytes(found))}"

    def shares_memory(self, card: int) -> bool:
        """Whether processes can share this card's memory by descriptor."""
        for attribute in (_VIRTUAL_MEMORY, _POSIX_DESCRIPTORS):
            value = c_int()
            self.call("say what a card can do", "cuDeviceGetAttribute", byref(value), c_int(attribute), c_int(card))
            if value.value == 0:
                return False
        return True

    @contextlib.contextmanager
    def on(self, card: int) -> Iterator[None]:
        """The card's primary context is the current one meanwhile. PyTorch uses the same context."""
        if card not in self._contexts:
            context = c_void_p()
            self.call("open the card", "cuDevicePrimaryCtxRetain", byref(context), c_int(card))
            self._contexts[card] = context
        before = c_void_p()
        self.call("say its context", "cuCtxGetCurrent", byref(before))
        self.call("use the card", "cuCtxSetCurrent", self._contexts[card])
        try:
            yield
        finally:
            self.call("use the card as before", "cuCtxSetCurrent", before)

    @property
    def is_of_this_process(self) -> bool:
        return self._process == os.getpid()


_driver: Driver | None = None


def driver() -> Driver:
    global _driver
    if _driver is None:
        _driver = Driver(os.environ.get(VARIABLE) or USUAL_DRIVER)
    return _driver


def card_of(device: torch.device) -> int | None:
    """The number of a model's card as the driver counts; None for a model on the CPU."""
    if device.type == "cuda":
        return torch.cuda.current_device() if device.index is None else device.index
    if is_stand_in() and os.environ.get(VARIABLE):
        return number_of_gpu(len(driver().cards()))
    return None


def card_that_shares(device: torch.device) -> str | None:
    """The UUID of the device's card if another process's memory on it can be used here."""
    if device.type == "cuda" and torch.version.cuda is None:
        return None  # AMD's cards go by the same name in PyTorch
    try:
        card = card_of(device)
        return driver().uuid_of(card) if card is not None and driver().shares_memory(card) else None
    except PacelineError:
        if os.environ.get(VARIABLE):
            raise
        return None  # the model goes on, with copies


def fetch(address: str, name: str) -> tuple[int, int]:
    """The descriptor of the memory `name` and its size, from the socket that gives it out. The caller closes it."""
    failed = f"the GPU memory {name} cannot be had from {address}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as giver:
            giver.settimeout(ANSWER_SECONDS)
            giver.connect("\0" + address[1:] if address.startswith("@") else address)
            giver.sendall(f"get {name}\n".encode())
            line, descriptors = _answer(giver)
    except OSError as error:
        raise PacelineError(f"{failed}: {error}") from None
    word, _, size = line.partition(" ")
    if word == "ok" and size.isdecimal() and len(descriptors) == 1:
        return descriptors[0], int(size)
    for descriptor in descriptors:
        os.close(descriptor)
    if line.startswith("no "):
        raise PacelineError(f"{failed}: {line[len('no ') :]}")
    raise PacelineError(f"{failed}: the answer is {line[:80]!r} with {len(descriptors)} descriptors")


def _answer(giver: socket.socket) -> tuple[str, list[int]]:
    text, descriptors = b"", []
    while not text.endswith(b"\n") and len(text) < 4096:
        part, more, _, _ = socket.recv_fds(giver, 4096, 4)
        descriptors += more
        if not part:
            break
        text += part
    return text.decode(errors="replace").rstrip("\n"), descriptors


class Mapping:
    """Memory of a card in this process's addresses, until the last tensor over it is gone."""

    def __init__(self, card: int, descriptor: int, size: int, write: bool) -> None:
        self._driver = driver()
        self._card = card
        self._size = size
        self.address = 0
        handle, reserved = c_ulonglong(), c_uint64()
        call = self._driver.call
        with self._driver.on(card):
            import_ = "cuMemImportFromShareableHandle"
            call("take the memory", import_, byref(handle), c_void_p(descriptor), c_int(_POSIX_DESCRIPTOR))
            try:
                nowhere, none = c_uint64(0), c_ulonglong(0)
                reserve = "cuMemAddressReserve"
                call("reserve addresses", reserve, byref(reserved), c_size_t(size), c_size_t(0), nowhere, none)
                try:
                    call("map the memory", "cuMemMap", reserved, c_size_t(size), c_size_t(0), handle, none)
                except PacelineError:
                    call("give addresses back", "cuMemAddressFree", reserved, c_size_t(size))
                    raise
            finally:
                call("let the memory go", "cuMemRelease", handle)  # the mapping keeps it
            self.address = int(reserved.value)
            access = _Access(_Location(_DEVICE_LOCATION, card), _READ_AND_WRITE if write else _READ)
            call("use the memory", "cuMemSetAccess", reserved, c_size_t(size), byref(access), c_size_t(1))

    def read(self, offset: int, to: torch.Tensor) -> None:
        """Copies to a contiguous tensor in the host's memory."""
        size = c_size_t(to.numel() * to.element_size())
        with self._driver.on(self._card):
            begin = c_uint64(self.address + offset)
            self._driver.call("copy from the card", "cuMemcpyDtoH_v2", c_void_p(to.data_ptr()), begin, size)

    def write(self, offset: int, source: torch.Tensor) -> None:
        """Copies from a contiguous tensor in the host's memory."""
        size = c_size_t(source.numel() * source.element_size())
        with self._driver.on(self._card):
            begin = c_uint64(self.address + offset)
            self._driver.call("copy to the card", "cuMemcpyHtoD_v2", begin, c_void_p(source.data_ptr()), size)

    def tensor(self, size: int, device: torch.device) -> torch.Tensor:
        """The first `size` bytes, on a device of this card. It keeps the mapping."""
        if device.type == "cuda":
            return torch.as_tensor(_CudaArray(self, size), device=device)
        array = (ctypes.c_ubyte * size).from_address(self.address)
        array.mapping = self  # type: ignore[attr-defined]
        return torch.frombuffer(array, dtype=torch.uint8)

    def __del__(self) -> None:
        if self.address == 0 or sys.is_finalizing() or not self._driver.is_of_this_process:
            return
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize(self._card)  # work that still uses it
        with self._driver.on(self._card):
            address, size = c_uint64(self.address), c_size_t(self._size)
            self._driver.call("unmap the memory", "cuMemUnmap", address, size)
            self._driver.call("give addresses back", "cuMemAddressFree", address, size)


class _CudaArray:
    def __init__(self, mapping: Mapping, size: int) -> None:
        self.mapping = mapping
        # PyTorch takes no array that says it is read-only.
        data = (mapping.address, False)
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": data, "version": 3}


class CardMemory:
    """Memory of a card. If it is not on the model's device (`near`), a view is a copy in the host's memory."""

    on_card = True

    def __init__(
        self, number: int, message: dict[str, Any], device: torch.device, write: bool, generation: int
    ) -> None:
        self.number = number
        self.size = int(message["bytes"])
        self.writable = write
        self.generation = generation
        name = str(message["name"])
        if device.type == "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]
        card = _number_of(str(message["device"]))
        descriptor, allocated = fetch(str(message["socket"]), name)
        try:
            if not 0 < self.size <= allocated:
                raise PacelineError(f"it has {allocated} bytes, and Paceline names {self.size} of it")
            self._mapping = Mapping(card, descriptor, allocated, write)
        except PacelineError as error:
            raise PacelineError(f"the GPU memory {name} cannot be used: {error}") from None
        finally:
            os.close(descriptor)
        self.near = card == card_of(device)
        self._whole = self._mapping.tensor(self.size, device) if self.near else None

    def view(self, offset: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        size = count * torch.empty(0, dtype=dtype).element_size()
        if self._whole is not None:
            return self._whole[offset : offset + size].view(dtype)
        copy = torch.empty(count, dtype=dtype)
        if count > 0:
            self._mapping.read(offset, copy)
        return copy

    def write(self, offset: int, source: torch.Tensor) -> None:
        if self._whole is not None:
            self.view(offset, source.numel(), source.dtype).copy_(source.reshape(-1))
        elif source.numel() > 0:
            self._mapping.write(offset, source.detach().cpu().contiguous())


def _number_of(card: str) -> int:
    cards = driver().cards()
    if card not in cards:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        because = "" if hidden is None else f"; CUDA_VISIBLE_DEVICES is {hidden!r}"
        raise PacelineError(f"the weights lie on {card}, which this process does not see{because}")
    return cards.index(card)
