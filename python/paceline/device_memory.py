"""Memory of a GPU that another process owns: its descriptor comes over a socket, and the CUDA driver maps it.

The driver is called through ctypes, so the package has no compiled part. PACELINE_CUDA_DRIVER names another library
than libcuda.so.1: the tests use a stand-in, whose memory the processor can reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import socket
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import Any

import torch

from .card_tensors import has_numpy, tensor_at
from .devices import is_stand_in, number_of_gpu
from .errors import PacelineError
from .own_socket import is_of_this_user

VARIABLE = "PACELINE_CUDA_DRIVER"
USUAL_DRIVER = "libcuda.so.1"
ANSWER_SECONDS = 60.0
# A server that died is back within this time, at the same address, or the run goes back to a checkpoint.
RETURN_SECONDS = 30.0

# Constants of the driver's interface.
_POSIX_DESCRIPTOR = 1
_DEVICE_LOCATION = 1
_READ, _READ_AND_WRITE = 1, 3
_VIRTUAL_MEMORY = 102
_POSIX_DESCRIPTORS = 103
_MAPPED = 2  # host memory that the card can reach
_WAIT, _WRITE = "cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2"
_VERSION_WITH_WORDS = 12000  # earlier drivers had them turned off


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

    def offers_words(self, device: torch.device) -> bool:
        """Whether the device's streams can wait for words in the host's memory, and write them there."""
        version = c_int()
        self.call("say its version", "cuDriverGetVersion", byref(version))
        if version.value < _VERSION_WITH_WORDS or not all(hasattr(self._library, name) for name in (_WAIT, _WRITE)):
            return False
        page = mmap.mmap(-1, mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        try:
            self.register(device, address, mmap.PAGESIZE)
        except PacelineError:  # some virtual machines and sandboxes refuse it
            return False
        self.unregister(device, address)
        return True

    def register(self, device: torch.device, address: int, size: int) -> int:
        """The GPU's address of memory of the host, which it can reach from now on."""
        found = c_uint64()
        with self.on(_known_card_of(device)):
            self.call("reach the page", "cuMemHostRegister_v2", c_void_p(address), c_size_t(size), c_uint(_MAPPED))
            try:
                self.call(
                    "reach the page", "cuMemHostGetDevicePointer_v2", byref(found), c_void_p(address), c_uint(0)
                )
            except PacelineError:
                self.unregister(device, address)
                raise
        return int(found.value)

    def unregister(self, device: torch.device, address: int) -> None:
        with self.on(_known_card_of(device)):
            self.call("let the page go", "cuMemHostUnregister", c_void_p(address))

    def wait_for_word(self, device: torch.device, address: int, number: int) -> None:
        """The device's current stream goes on once the word at `address` is not behind `number`."""
        self._word("wait for a word", _WAIT, device, address, number)

    def write_word(self, device: torch.device, address: int, number: int) -> None:
        self._word("write a word", _WRITE, device, address, number)

    def _word(self, what: str, function: str, device: torch.device, address: int, number: int) -> None:
        stream = c_void_p(torch.cuda.current_stream(device).cuda_stream)
        # PyTorch's default stream is 0 on each card, and the current context says whose it is.
        with self.on(_known_card_of(device)):
            self.call(what, function, stream, c_uint64(address), c_uint(number), c_uint(0))

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


def _known_card_of(device: torch.device) -> int:
    card = card_of(device)
    assert card is not None
    return card


def card_that_shares(device: torch.device) -> str | None:
    """The UUID of the device's card if another process's memory on it can be used here."""
    if device.type == "cuda" and torch.version.cuda is None:
        return None  # AMD's cards go by the same name in PyTorch
    try:
        card = card_of(device)
        if card is None or not driver().shares_memory(card) or not has_numpy():
            return None
        return driver().uuid_of(card)
    except PacelineError:
        if os.environ.get(VARIABLE):
            raise
        return None  # the model goes on, with copies


def fetch(address: str, name: str) -> tuple[int, int]:
    """The descriptor of the memory `name` and its size, from the socket that gives it out. The caller closes it."""
    failed = f"the GPU memory {name} cannot be had from {address}"
    deadline = time.monotonic() + RETURN_SECONDS
    while True:
        try:
            line, descriptors = _ask(address, name)
            break
        except OSError as error:
            may_return = isinstance(error, (ConnectionError, FileNotFoundError))
            if not may_return or time.monotonic() > deadline:
                raise PacelineError(f"{failed}: {error}") from None
            time.sleep(0.02)
    word, _, size = line.partition(" ")
    if word == "ok" and size.isdecimal() and len(descriptors) == 1:
        return descriptors[0], int(size)
    for descriptor in descriptors:
        os.close(descriptor)
    if line.startswith("no "):
        raise PacelineError(f"{failed}: {line[len('no ') :]}")
    raise PacelineError(f"{failed}: the answer is {line[:80]!r} with {len(descriptors)} descriptors")


def _ask(address: str, name: str) -> tuple[str, list[int]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as giver:
        giver.settimeout(ANSWER_SECONDS)
        giver.connect("\0" + address[1:] if address.startswith("@") else address)
        if not is_of_this_user(giver):
            raise PermissionError("another user listens there")
        giver.sendall(f"get {name}\n".encode())
        line, descriptors = _answer(giver)
    if not line and not descriptors:
        raise ConnectionResetError("the server ended before it answered")
    return line, descriptors


def _answer(giver: socket.socket) -> tuple[str, list[int]]:
    text, descriptors = b"", []
    while not text.endswith(b"\n") and len(text) < 4096:
        part, more, _, _ = socket.recv_fds(giver, 4096, 4)
        descriptors += more
        if not part:
            break
        text += part
    return text.decode(errors="replace").rstrip("\n"), descriptors


class Rows:
    """Addresses for memories of one size, one behind the other, so that the card can choose among them."""

    MOST = 32

    def __init__(self, card: int, size: int, most: int = MOST) -> None:
        self._driver = driver()
        self._card = card
        self.size = size  # bytes of a row
        self._most = most
        self._used: set[int] = set()
        reserved = c_uint64()
        with self._driver.on(card):
            nowhere, none, bytes_ = c_uint64(0), c_ulonglong(0), c_size_t(most * size)
            reserve = "cuMemAddressReserve"
            self._driver.call("reserve addresses", reserve, byref(reserved), bytes_, c_size_t(0), nowhere, none)
        self.address = int(reserved.value)

    def take(self) -> int | None:
        """A free row; None if there is none."""
        free = next((row for row in range(self._most) if row not in self._used), None)
        if free is not None:
            self._used.add(free)
        return free

    def give_back(self, row: int) -> None:
        self._used.discard(row)

    def __del__(self) -> None:
        if getattr(self, "address", 0) == 0 or sys.is_finalizing() or not self._driver.is_of_this_process:
            return
        with self._driver.on(self._card):
            address, size = c_uint64(self.address), c_size_t(self._most * self.size)
            self._driver.call("give addresses back", "cuMemAddressFree", address, size)


class Mapping:
    """Memory of a card in this process's addresses, until the last tensor over it is gone."""

    def __init__(self, card: int, descriptor: int, size: int, write: bool, rows: Rows | None = None) -> None:
        self._driver = driver()
        self._card = card
        self._size = size
        self.address = 0
        row = None if rows is None else rows.take()
        if rows is None or row is None:
            rows, row = Rows(card, size, 1), 0
        self.rows, self.row = rows, row
        place = c_uint64(rows.address + row * size)
        handle = c_ulonglong()
        call = self._driver.call
        with self._driver.on(card):
            import_ = "cuMemImportFromShareableHandle"
            call("take the memory", import_, byref(handle), c_void_p(descriptor), c_int(_POSIX_DESCRIPTOR))
            try:
                call("map the memory", "cuMemMap", place, c_size_t(size), c_size_t(0), handle, c_ulonglong(0))
            finally:
                call("let the memory go", "cuMemRelease", handle)  # the mapping keeps it
            self.address = int(place.value)
            access = _Access(_Location(_DEVICE_LOCATION, card), _READ_AND_WRITE if write else _READ)
            call("use the memory", "cuMemSetAccess", place, c_size_t(size), byref(access), c_size_t(1))

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
        return tensor_at(self.address, size, device, self)

    def __del__(self) -> None:
        if self.address == 0 or sys.is_finalizing() or not self._driver.is_of_this_process:
            return
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize(self._card)  # work that still uses it
        with self._driver.on(self._card):
            self._driver.call("unmap the memory", "cuMemUnmap", c_uint64(self.address), c_size_t(self._size))
        self.rows.give_back(self.row)


class CardMemory:
    """Memory of a card. If it is not on the model's device (`near`), a view is a copy in the host's memory."""

    on_card = True

    def __init__(
        self,
        number: int,
        message: dict[str, Any],
        device: torch.device,
        write: bool,
        generation: int,
        rows: dict[tuple[int, int], Rows],
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
            own = None
            if not write:  # one of several versions of the weights
                own = rows[card, allocated] = rows.get((card, allocated)) or Rows(card, allocated)
            self._mapping = Mapping(card, descriptor, allocated, write, own)
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
        copy = torch.empty(count, dtype=dtype, device="cpu")
        if count > 0:
            self._mapping.read(offset, copy)
        return copy

    @property
    def mapping(self) -> Mapping:
        return self._mapping

    def write(self, offset: int, source: torch.Tensor) -> None:
        if self._whole is not None:
            self.view(offset, source.numel(), source.dtype).copy_(source.reshape(-1))
        elif source.numel() > 0:
            self._mapping.write(offset, source.detach().cpu().contiguous())


@dataclass(frozen=True)
class Choice:
    """Memories among which the device chooses. The i-th has `table[order[i]]` for the tensor beside the table."""

    tables: list[tuple[torch.Tensor, torch.Tensor]]
    order: torch.Tensor

    def take(self, index: torch.Tensor) -> None:
        """Copies from the memory of this index, a tensor of one integer on the device."""
        row = self.order.index_select(0, index)
        for table, to in self.tables:
            torch.index_select(table, 0, row, out=to.view(1, -1))


def choice(
    memories: Sequence[CardMemory], parts: Sequence[tuple[int, torch.Tensor]], device: torch.device
) -> Choice | None:
    """A choice among memories, of what each has at these bytes for these tensors; None if they do not lie together in
    this process's addresses."""
    mappings = [memory.mapping for memory in memories if memory.near]
    if len(mappings) < len(memories) or any(mapping.rows is not mappings[0].rows for mapping in mappings):
        return None
    first = min(mapping.row for mapping in mappings)
    count = max(mapping.row for mapping in mappings) - first + 1
    stride, begin = mappings[0].rows.size, min(mapping.address for mapping in mappings)
    end = max(at + to.numel() * to.element_size() for at, to in parts)
    whole = tensor_at(begin, (count - 1) * stride + end, device, mappings)
    tables = []
    for at, to in parts:
        size = to.element_size()
        rows = whole[: whole.numel() // size * size].view(to.dtype)
        tables.append((rows.as_strided((count, to.numel()), (stride // size, 1), at // size), to))
    order = torch.tensor([mapping.row - first for mapping in mappings], device=device)
    return Choice(tables, order)


def _number_of(card: str) -> int:
    cards = driver().cards()
    if card not in cards:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        because = "" if hidden is None else f"; CUDA_VISIBLE_DEVICES is {hidden!r}"
        raise PacelineError(f"the weights lie on {card}, which this process does not see{because}")
    return cards.index(card)
