"""Batches of loader processes: small ones come as bytes, and each is what it was in the loader process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

from paceline.loading import AheadLoader, Load, Loads
from paceline.sent_batches import AsBytes, to_send

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "untyped_storage"), reason="torch before 2.0 sends every batch itself"
)


class Pair(NamedTuple):
    first: Any
    second: Any


class Subclass(torch.Tensor):
    pass


def strided() -> torch.Tensor:
    return torch.arange(12.0).view(3, 4)[:, :2]


def first_rows() -> torch.Tensor:
    return torch.arange(12.0).view(3, 4)[:2]


def aliases() -> list[torch.Tensor]:
    whole = torch.arange(12.0)
    return [whole, whole.view(3, 4)]


PLAIN: dict[str, Callable[[], Any]] = {
    "one tensor": lambda: torch.arange(12.0).view(3, 4),
    "a number": lambda: torch.tensor(3),
    "no elements": lambda: torch.empty(0, 5, dtype=torch.int32),
    "nested": lambda: {"x": [torch.ones(2), "text"], "pair": Pair(torch.zeros(1), (None, 3.5, b"bytes"))},
    "every type": lambda: [
        torch.arange(3).to(dtype)
        for dtype in (torch.bool, torch.uint8, torch.int16, torch.bfloat16, torch.float16, torch.complex64)
    ],
    "the largest": lambda: torch.ones(1 << 16),
}
FOR_TORCH: dict[str, Callable[[], Any]] = {
    "a large tensor": lambda: torch.ones((1 << 16) + 1),
    "many tensors": lambda: [torch.ones(1 << 16) for _ in range(5)],
    "a part of a tensor": strided,
    "the first rows of a tensor": first_rows,
    "tensors with the same memory": aliases,
    "another order of dimensions": lambda: torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "a gradient": lambda: torch.ones(3, requires_grad=True),
    "a class of tensors": lambda: torch.ones(3).as_subclass(Subclass),
    "a parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "a conjugate": lambda: torch.ones(3, dtype=torch.complex64).conj(),
    "a storage": lambda: torch.ones(3).untyped_storage(),
}


def assert_same(given: Any, wanted: Any) -> None:
    assert type(given) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert (given.dtype, given.shape, given.requires_grad) == (wanted.dtype, wanted.shape, wanted.requires_grad)
        assert given.layout != torch.strided or given.stride() == wanted.stride()
        assert torch.equal(given.to_dense(), wanted.to_dense())
    elif isinstance(wanted, dict):
        assert list(given) == list(wanted)
        for key in wanted:
            assert_same(given[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert len(given) == len(wanted)
        for one, other in zip(given, wanted):
            assert_same(one, other)
    elif isinstance(wanted, torch.UntypedStorage):
        assert given.tolist() == wanted.tolist()
    else:
        assert given == wanted


@pytest.mark.parametrize("kind", PLAIN)
def test_a_small_batch_is_bytes(kind: str) -> None:
    sent = to_send(PLAIN[kind]())
    assert isinstance(sent, AsBytes)
    assert_same(pickle.loads(pickle.dumps(sent)).batch(), PLAIN[kind]())


@pytest.mark.parametrize("kind", FOR_TORCH)
def test_torch_sends_what_is_more_than_bytes(kind: str) -> None:
    batch = FOR_TORCH[kind]()
    assert to_send(batch) is batch


def test_a_batch_can_be_written_and_is_nobody_elses() -> None:
    first = torch.zeros(3)
    sent = to_send([first, first])
    one, same = sent.batch()
    one += 1
    assert same is one
    assert first.tolist() == [0, 0, 0] and sent.batch()[0].tolist() == [0, 0, 0]


def test_a_batch_is_pinned_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self + 1)  # this host may have no card
    sent = to_send({"x": torch.zeros(2), "n": 3})
    pinned = torch.utils.data._utils.pin_memory.pin_memory(sent)
    assert_same(pinned, {"x": torch.ones(2), "n": 3})


class Made(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, makers: list[Callable[[], Any]]) -> None:
        self._makers = makers

    def __len__(self) -> int:
        return len(self._makers)

    def __getitem__(self, index: int) -> Any:
        return self._makers[index]()


def the_sample(samples: list[Any]) -> Any:
    (sample,) = samples
    return sample


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_every_batch_arrives_as_it_was(method: str) -> None:
    kinds = {**PLAIN, **FOR_TORCH}
    del kinds["a conjugate"], kinds["a class of tensors"]  # torch's own queues do not keep these
    makers = list(kinds.values())
    # A spawned process gets the data set pickled, and a lambda is not.
    data_set = Made(makers) if method == "fork" else Numbers()
    loader = AheadLoader(Loads(data_set, the_sample), {"num_workers": 2, "multiprocessing_context": method})
    loads = [Load((index,), 0) for index in range(len(data_set))]
    for at, load in enumerate(loads):
        loader.expect(loads[at:])
        assert_same(loader.get(load), makers[at]() if method == "fork" else torch.tensor([at]))
    loader.close()


class Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index])


class Growing(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Says in each sample whether torch knew the process as a loader process."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> torch.Tensor:
        known = torch.utils.data.get_worker_info() is not None
        return torch.full((10_000 * (index // 5 % 2 * 100 + 1),), index * 10.0 + known)


def test_small_and_large_batches_take_turns() -> None:
    loader = AheadLoader(Loads(Growing(), None), {"num_workers": 1})
    shared = []
    for index in range(20):
        batch = loader.get(Load((index,), 0))
        assert batch.shape == (1, 10_000 if index // 5 % 2 == 0 else 1_010_000)
        assert batch.unique().tolist() == [index * 10.0 + 1]
        shared.append(batch.is_shared())
    assert shared == [index // 5 % 2 == 1 for index in range(20)]
    loader.close()


@pytest.mark.parametrize("before", [True, False])
def test_a_batch_that_goes_as_bytes_needs_no_shared_memory(before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.data._utils.worker, "_worker_info", object())  # a loader process has one
    loads = Loads(Numbers(), None)
    loads.sent_as_bytes = before
    assert loads[Load((1, 2), 0)].is_shared() is not before


def test_a_batch_that_nobody_can_pickle_is_an_error_of_its_step() -> None:
    loader = AheadLoader(Loads(Made([threading.Lock, lambda: 1]), the_sample), {"num_workers": 1})
    loader.expect([Load((0,), 0), Load((1,), 0)])
    with pytest.raises(TypeError, match="cannot pickle '_thread.lock' object"):
        loader.get(Load((0,), 0))
    assert loader.get(Load((1,), 0)) == 1
    loader.close()
