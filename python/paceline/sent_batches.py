"""Batches on their way from a loader process to the program.

torch gives each tensor a file of shared memory, and its descriptor crosses a socket of its own, on which both sides
prove first that they know a secret. For a small batch that takes longer than copying its bytes into a pipe.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import pickle
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.utils.data._utils import worker
from torch.utils.data._utils.pin_memory import pin_memory

# A page of a file crosses without a copy, so larger ones are worth it.
_MOST_BYTES_OF_A_TENSOR = 1 << 18
_MOST_BYTES = 1 << 20  # the limit of a batch
_PIPE_BYTES = 1 << 18  # a sender waits less often than with the usual 64 kB


class AsBytes:
    """A batch, pickled."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def batch(self) -> Any:
        return pickle.loads(self._data)

    def pin_memory(self) -> Any:
        """torch calls this in a thread of the program, and passes on what it returns."""
        return pin_memory(self.batch())  # type: ignore[no-untyped-call]


def to_send(batch: Any) -> Any:
    """Returns the batch as bytes, or the batch itself if torch has to send it.

    torch does so if tensors have many bytes, share their memory or are not plain ones in the processor's memory.
    """
    if not hasattr(torch, "UntypedStorage") or not hasattr(torch.Tensor, "untyped_storage"):
        return batch  # torch before 2.0 does not say what a tensor's memory is
    data = io.BytesIO()
    try:
        _Pickler(data).dump(batch)
    except _ForTorchError:
        return batch
    return AsBytes(data.getvalue())


@contextlib.contextmanager
def collating_into_own_memory() -> Iterator[None]:
    """default_collate() would write into shared memory in a loader process, which costs a file for each tensor."""
    info, worker._worker_info = worker._worker_info, None
    try:
        yield
    finally:
        worker._worker_info = info


def widen(batches: Any) -> None:
    """Gives the pipe of a DataLoader's iterator room for some batches. A system that allows less costs time only."""
    with contextlib.suppress(OSError, AttributeError):  # another torch may have another queue
        fcntl.fcntl(batches._worker_result_queue._writer.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class _ForTorchError(Exception):
    """This batch cannot be sent as bytes."""


class _Pickler(ForkingPickler):
    """The pickler of torch's queues, except for the memory of tensors."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._bytes = 0
        self._places: set[int] = set()

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (torch.UntypedStorage, torch.TypedStorage)):
            raise _ForTorchError
        if not isinstance(value, torch.Tensor):
            return NotImplemented
        if not _is_plain(value):
            raise _ForTorchError
        size, place = value.nbytes, value.data_ptr()
        self._bytes += size
        if size > _MOST_BYTES_OF_A_TENSOR or self._bytes > _MOST_BYTES or (size and place in self._places):
            raise _ForTorchError
        self._places.add(place)
        memory = (ctypes.c_char * size).from_address(place) if size else bytearray()
        return _tensor, (pickle.PickleBuffer(memory), value.dtype, tuple(value.shape))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether its bytes, type and shape are all of it, and it has its memory for itself."""
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.is_quantized or tensor.requires_grad or tensor.is_conj() or tensor.is_neg())
        and tensor.is_contiguous()
        and tensor.untyped_storage().nbytes() == tensor.nbytes
    )


def _tensor(data: bytearray, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.frombuffer(data, dtype=dtype).view(shape) if data else torch.empty(shape, dtype=dtype)
