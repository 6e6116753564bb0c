"""An error of too little memory says what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fake_member import Member
from scripts import HEAD, LOOP

from paceline.enlisting import _place
from paceline.errors import PacelineError
from paceline.memory_short import Computing, is_out_of_memory, way_out
from paceline.session import Session
from paceline.wishes import Wishes


def test_a_batch_that_has_no_room_says_how_to_compute_it_in_parts(tmp_path: Path) -> None:
    body = """
def loss_of(model, x, y):
    if len(x) < 3:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    return F.cross_entropy(model(x), y)
job = paceline.join(model := Net(), Points())
"""
    with Member(tmp_path, HEAD + body + LOOP) as member:
        member.take_model()
        member.map(0, write=False)
        member.map(1, write=True)
        member.order([1, 2, 3, 4])
        assert member.receive()["type"] == "stepped"
        member.order([9, 10])
        error = member.receive("error")
    assert error["text"] == (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB; 2 samples at once have no room on this "
        "device: write --set micro_batch=1, which computes each batch in parts, with the same gradient"
    )
    assert "too_few" not in error


SHORT_RUN = """
def loss(model, batch):
    if len(batch[0]) == 5:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")
    return F.cross_entropy(model(batch[0]), batch[1])
model = nn.Sequential(*[nn.Linear(6, 6) for _ in range(3)])
paceline.run(model, Points(), loss)
"""


def test_a_whole_model_without_memory_waits_for_a_stage_if_the_job_may_cut_it(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + SHORT_RUN, stages=True, recuts=True) as member:
        member.take_model()
        member.map(0, write=False)
        member.map(1, write=True)
        member.order([1, 2, 3, 4])
        assert member.receive()["type"] == "stepped"
        member.order([9, 10, 11, 12, 13])
        said = member.receive("out_of_memory")
        assert said["text"] == (
            "OutOfMemoryError: CUDA out of memory; there is no room on this device for units 0 to 2 with micro-batches "
            "of 5"
        )
        assert "train.py:" in said["where"]
        member.order([5, 6, 7, 8])
        assert member.receive()["type"] == "stepped"


def test_a_whole_model_without_memory_ends_if_no_job_may_cut_it(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + SHORT_RUN, stages=True) as member:
        member.take_model()
        member.map(0, write=False)
        member.map(1, write=True)
        member.order([9, 10, 11, 12, 13])
        assert "write --set micro_batch=2" in member.receive("error")["text"]


def test_a_pass_without_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    body = """
import weakref
kept = []
def loss(model, batch):
    assert all(one() is None for one in kept), "it has memory still"
    if len(batch[0]) == 5:
        large = torch.ones(3)
        kept.append(weakref.ref(large))
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")
    return F.cross_entropy(model(batch[0]), batch[1])
model = nn.Sequential(*[nn.Linear(6, 6) for _ in range(3)])
paceline.run(model, Points(), loss)
"""
    with Member(tmp_path, HEAD + body, stages=True, recuts=True) as member:
        member.take_model()
        member.map(0, write=False)
        member.map(1, write=True)
        for _ in range(2):
            member.order([9, 10, 11, 12, 13])
            member.receive("out_of_memory")
        member.order([5, 6, 7, 8])
        assert member.receive()["type"] == "stepped"


def test_a_job_without_memory_for_its_loader_says_so(tmp_path: Path) -> None:
    body = """
import paceline.enlisting
def make_loader(*_):
    raise MemoryError("no room")
paceline.enlisting.make_loader = make_loader
paceline.join(Net(), Points())
"""
    with Member(tmp_path, HEAD + body) as member:
        assert member.receive("error")["text"] == "MemoryError: no room"


def test_memory_that_is_short_gets_the_advice_of_its_place() -> None:
    short = MemoryError()
    assert "several devices can hold it together" in way_out(short, 1, None)
    assert way_out(short, 0, None) == way_out(ValueError("wrong"), 4, None) == ""
    says = way_out(RuntimeError("... DefaultCPUAllocator: can't allocate memory: ..."), 0, Computing(3, 8, 4))
    assert "no room on this device for units 3 to 7 with micro-batches of 4: write --set micro_batch=2" in says
    assert "one sample at a time is the least" in way_out(short, 0, Computing(3, 4, 1))


SAID_BY_A_GPU = [
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "CUDA driver error: out of memory",
    "Triton Error [CUDA]: out of memory",
    "CUDA out of memory. Tried to allocate 2.00 GiB",
]


@pytest.mark.parametrize("said", SAID_BY_A_GPU)
def test_memory_that_the_driver_and_its_libraries_do_not_get_is_short_too(said: str) -> None:
    assert is_out_of_memory(RuntimeError(said)) and not is_out_of_memory(ValueError(said))
    assert not is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_INTERNAL_ERROR"))


@pytest.mark.parametrize(("said", "is_short"), [(SAID_BY_A_GPU[0], True), ("CUDA error: invalid argument", False)])
def test_a_whole_model_without_room_on_the_evaluators_device_is_one_line(said: str, is_short: bool) -> None:
    class Large(torch.nn.Linear):
        def to(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError(said)

    channel: Any = None
    session = Session(channel, "evaluator", "e", 1, 1)
    with pytest.raises(PacelineError if is_short else RuntimeError, match="has no room" if is_short else "invalid"):
        _place(session, Large(2, 2), Wishes(device=torch.device("cuda", 1)))
