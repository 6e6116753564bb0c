"""Tensors over addresses of a card that this process has mapped. The package has no compiled part for them."""

from __future__ import annotations

import ctypes
import functools
import sys

import torch


@functools.cache
def has_numpy() -> bool:
    """Whether PyTorch can make tensors over a card's addresses, for which it needs NumPy. Says so once if not."""
    try:
        torch.zeros(1, device="cpu").numpy()  # the program's default device may be a card
    except RuntimeError:
        print(
            "paceline: this PyTorch finds no NumPy that it can use, so the program's weights cannot be in the GPU's "
            "memory and are copied to it; install numpy, for PyTorch before 2.3 'numpy<2'",
            file=sys.stderr,
        )
        return False
    return True


def tensor_at(address: int, size: int, device: torch.device, keeps: object) -> torch.Tensor:
    """Bytes that lie there. The tensor keeps an object alive."""
    if device.type == "cuda":
        return torch.as_tensor(_CudaArray(address, size, keeps), device=device)
    array = (ctypes.c_ubyte * size).from_address(address)
    array.keeps = keeps  # type: ignore[attr-defined]
    return torch.frombuffer(array, dtype=torch.uint8)


class _CudaArray:
    def __init__(self, address: int, size: int, keeps: object) -> None:
        self.keeps = keeps
        # PyTorch takes no array that says it is read-only.
        data = (address, False)
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": data, "version": 3}
