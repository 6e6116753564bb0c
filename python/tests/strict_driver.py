"""Registered memory without a GPU: the driver refuses what the real one refuses, and copies fail as they do there."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from paceline import device_binding
from paceline.device_binding import CudaTransfers


class Driver:
    """Refuses pages that it knows, and an address that it does not know."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int]] = {}  # size and flags
        self.registered = 0

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        if any(address < begin + length and begin < address + size for begin, (length, _) in self.known.items()):
            return 712
        self.known[address] = size, flags
        self.registered += 1
        return 0

    def cudaHostUnregister(self, address: int) -> int:
        del self.known[address]
        return 0

    def has(self, part: torch.Tensor) -> bool:
        """Whether the part lies in one registration. A copy of a part that lies in one, but not all of it, fails."""
        begin = part.data_ptr()
        end = begin + part.numel() * part.element_size()
        for first, (size, _) in self.known.items():
            if first <= begin and end <= first + size:
                return True
            if first < end and begin < first + size:
                raise RuntimeError("CUDA error: invalid argument")
        return False


class Stream:
    def __init__(self, *_: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass


def install() -> None:
    """Gives this process's stand-in for a GPU such a driver. Each copy of a binding says how many of its two sides
    are registered.
    """
    driver = Driver()
    plain = torch.Tensor.copy_

    class Transfers(CudaTransfers):
        def __init__(self) -> None:
            super().__init__(torch.device("cuda", 0))

        def copy(self, to: torch.Tensor, source: torch.Tensor) -> None:
            print("copied", driver.has(to) + driver.has(source))
            super().copy(to, source)

        def captures(self) -> bool:
            return False

        def aside(self) -> contextlib.AbstractContextManager[Any]:
            return contextlib.nullcontext()

        def join_aside(self) -> None:
            pass

    def copy_(to: torch.Tensor, source: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        for one in (to, source):
            driver.has(one)
        return plain(to, source, *arguments, **named)

    torch.cuda.Stream = torch.cuda.current_stream = Stream  # type: ignore[assignment,misc]
    torch.Tensor.copy_ = copy_  # type: ignore[method-assign,assignment]
    device_binding._driver = lambda: driver
    device_binding.Transfers = Transfers  # type: ignore[misc]
