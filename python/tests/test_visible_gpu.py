"""One GPU for each worker, by a variable that CUDA reads once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import pytest
import torch
from fake_member import Member

from paceline import PacelineError, card_memory, devices
from paceline.integrations import visible_gpu
from paceline.integrations.visible_gpu import chosen
from paceline.team import Team
from paceline.wishes import Wishes


@pytest.mark.parametrize(
    "visible, count, number, gpu",
    [(None, 4, 6, "2"), ("3,5", 2, 1, "5"), ("GPU-a, GPU-b", 2, 3, "GPU-b"), ("", 2, 1, "1")],
)
def test_each_worker_sees_one_gpu(visible: str | None, count: int, number: int, gpu: str) -> None:
    assert chosen(visible, count, number) == gpu


@pytest.mark.parametrize(
    "named, gpu", [(None, "2"), ("", "2"), ("cuda", "2"), ("cuda:1", "1"), ("cpu", ""), ("stand-in", "")]
)
def test_it_is_the_one_that_the_job_names(monkeypatch: pytest.MonkeyPatch, named: str | None, gpu: str) -> None:
    be_worker(monkeypatch, on_host=6)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    if named is None:
        monkeypatch.delenv("PACELINE_DEVICE", raising=False)
    else:
        monkeypatch.setenv("PACELINE_DEVICE", named)
    monkeypatch.setattr(devices, "_count_at_first", None)
    visible_gpu.see_one()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == gpu
    assert devices.count_at_first(1) == (4 if gpu else 1)


def be_worker(monkeypatch: pytest.MonkeyPatch, on_host: int, rank: int = 0, processes: int = 1) -> None:
    here = SimpleNamespace(on_host=on_host, rank=rank, processes=processes)
    for module in (visible_gpu, devices):
        monkeypatch.setattr(module, "session", lambda: here)


@pytest.mark.parametrize(("on_host", "rank", "gpu"), [(0, 0, "0"), (0, 1, "2"), (1, 0, "1"), (1, 1, "3")])
def test_each_process_of_a_worker_sees_a_gpu_of_its_own(
    monkeypatch: pytest.MonkeyPatch, on_host: int, rank: int, gpu: str
) -> None:
    be_worker(monkeypatch, on_host, rank, processes=2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.delenv("PACELINE_DEVICE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(devices, "_count_at_first", None)
    visible_gpu.see_one()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == gpu


FOUR_INSTANCES = "MIG-a,MIG-b, MIG-c,MIG-d"


class OneInstance:
    """A CUDA that sees the first MIG instance that is visible when it is first asked."""

    first: str | None = None

    def seen(self) -> bool:
        self.first = self.first or os.environ["CUDA_VISIBLE_DEVICES"].split(",")[0]
        return True

    def device_count(self) -> int:
        self.seen()
        return 1


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> OneInstance:
    cuda = OneInstance()
    monkeypatch.setattr(torch.cuda, "is_available", cuda.seen)
    monkeypatch.setattr(torch.cuda, "device_count", cuda.device_count)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", cuda.device_count, raising=False)
    monkeypatch.setattr(devices, "_count_at_first", None)
    monkeypatch.delenv("PACELINE_DEVICE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", FOUR_INSTANCES)
    return cuda


def asks_for_a_device() -> None:
    assert devices.device() == torch.device("cuda", 0)


def runs_on_cuda() -> None:
    wishes = Wishes(device="cuda")
    wishes.check()
    assert wishes.device == torch.device("cuda", 0)


@pytest.mark.parametrize("asks", [asks_for_a_device, runs_on_cuda, visible_gpu.see_one])
@pytest.mark.parametrize("named", [None, "cuda"])
def test_each_worker_has_a_mig_instance_of_its_own(
    monkeypatch: pytest.MonkeyPatch, instance: OneInstance, asks: Callable[[], None], named: str | None
) -> None:
    be_worker(monkeypatch, on_host=6)
    if named is not None:
        monkeypatch.setenv("PACELINE_DEVICE", named)
    asks()
    asks_for_a_device()
    assert instance.first == "MIG-c" and devices.count_at_first(1) == 4


def test_a_mig_instance_may_be_named(monkeypatch: pytest.MonkeyPatch, instance: OneInstance) -> None:
    be_worker(monkeypatch, on_host=6)
    monkeypatch.setenv("PACELINE_DEVICE", "cuda:1")
    asks_for_a_device()
    assert instance.first == "MIG-b"


def test_a_process_that_no_worker_started_sees_what_it_saw(
    monkeypatch: pytest.MonkeyPatch, instance: OneInstance
) -> None:
    monkeypatch.setattr(devices, "session", lambda: None)
    asks_for_a_device()
    assert instance.first == "MIG-a" and os.environ["CUDA_VISIBLE_DEVICES"] == FOUR_INSTANCES


def test_each_mig_instance_is_asked_for_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: Any, env: dict[str, str], **_: Any) -> Any:
        name = env["CUDA_VISIBLE_DEVICES"]
        return SimpleNamespace(stdout=json.dumps([["GPU-" + name[-1], ord(name[-1])]]))

    monkeypatch.setattr(card_memory.subprocess, "run", run)
    each = card_memory.cards_of("", {"CUDA_VISIBLE_DEVICES": FOUR_INSTANCES})
    assert each == [("GPU-a", 97), ("GPU-b", 98), ("GPU-c", 99), ("GPU-d", 100)]
    assert card_memory.cards_of("", {"CUDA_VISIBLE_DEVICES": "1"}) == [("GPU-1", 49)]


def test_mig_instances_are_none_that_nccl_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a")
    process: Any = SimpleNamespace(_device=torch.device("cuda", 0))
    assert Team._gpu(process) is None


class Cuda:
    """Four GPUs. The answer to the first question stays, whatever CUDA_VISIBLE_DEVICES says later."""

    answer: int | None = None

    def device_count(self) -> int:
        """PyTorch counts so, by NVML, before it has initialized CUDA."""
        return len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))

    def asked(self) -> int:
        if self.answer is None:
            self.answer = self.device_count()
        return self.answer


@pytest.mark.parametrize("asks_before", [False, True])
def test_a_question_for_gpus_before_the_import_is_noticed(monkeypatch: pytest.MonkeyPatch, asks_before: bool) -> None:
    cuda = Cuda()
    be_worker(monkeypatch, on_host=6)
    monkeypatch.setattr(torch.cuda, "device_count", cuda.device_count)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", cuda.asked, raising=False)
    monkeypatch.setattr(devices, "_count_at_first", None)
    monkeypatch.delenv("PACELINE_DEVICE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    if asks_before:
        cuda.asked()  # torch.cuda.is_available() asks, too
        with pytest.raises(PacelineError, match=r"still sees 4 GPUs.*is_available\(\) does; import"):
            visible_gpu.see_one()
    else:
        visible_gpu.see_one()
        assert cuda.asked() == 1 and os.environ["CUDA_VISIBLE_DEVICES"] == "2"


def test_the_worker_hears_which_import_is_too_late(tmp_path: Path) -> None:
    script = """
import torch
torch.cuda.device_count = torch._C._cuda_getDeviceCount = lambda: 2
from paceline.integrations import visible_gpu
visible_gpu.see_one()
"""
    with Member(tmp_path, script, environment={"PACELINE_DEVICE": ""}) as member:
        error = member.receive("error")
        assert "still sees 2 GPUs" in error["text"] and error["where"] == "train.py:5"
        assert member.wait() == 1


@pytest.mark.parametrize(
    ("named", "hidden", "gpu"),
    [
        (None, False, "cuda:2"),
        ("cuda", False, "cuda:2"),
        ("cuda:1", False, "cuda:1"),
        ("cpu", False, "cpu"),
        (None, True, "cuda:0"),
        ("cuda", True, "cuda:0"),
        ("cuda:1", True, "cuda:0"),  # the only one that the process sees
        ("cpu", True, "cpu"),
    ],
)
def test_the_device_of_a_process_is_one_that_it_sees(
    monkeypatch: pytest.MonkeyPatch, named: str | None, hidden: bool, gpu: str
) -> None:
    be_worker(monkeypatch, on_host=6)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1 if hidden else 4)
    monkeypatch.setattr(devices, "_count_at_first", 4 if hidden else None)
    monkeypatch.delenv("PACELINE_DEVICE", raising=False)
    if named is not None:
        monkeypatch.setenv("PACELINE_DEVICE", named)
    assert devices.device() == torch.device(gpu)


def test_a_gpu_that_is_named_and_not_there_is_for_pytorch_to_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("PACELINE_DEVICE", "cuda")
    assert devices.device() == torch.device("cuda")
