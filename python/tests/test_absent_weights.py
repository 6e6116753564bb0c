"""Weights that a stage does not hold: they have no memory, a shape, and no values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from paceline.absent_weights import AbsentUsed, make_absent
from paceline.host_binding import HostBinding
from paceline.inventory import take_inventory
from paceline.memories import FLOAT, Memories
from paceline.stubs import Scope, make_stub

pytestmark = pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later")


def absent(*shape: int, number: int = 0, scope: Scope | None = None) -> torch.Tensor:
    return make_absent(torch.empty(shape), f"w{number}", number, scope or Scope())


def test_what_is_computed_from_an_absent_weight_has_its_shape() -> None:
    ids = torch.tensor([[1, 2, 3]])
    found = F.embedding(ids, absent(7, 4)) + F.embedding(torch.arange(3), absent(5, 4, number=1))
    found = F.layer_norm(F.dropout(found), (4,), absent(4, number=2))
    found += 1
    assert found.shape == (1, 3, 4)
    assert found.device.type == "cpu"
    assert found.dtype == torch.float32
    first, second = found.to(torch.bfloat16).chunk(2, dim=-1)
    assert second.shape == (1, 3, 2)
    assert first.dtype == torch.bfloat16
    assert [row.shape for row in found[0]] == [(4,), (4,), (4,)]
    assert torch.cat([found, torch.ones(1, 2, 4)], dim=1).shape == (1, 5, 4)


def test_a_use_of_values_names_all_weights_that_they_come_from() -> None:
    both = absent(4, number=3) * absent(4, number=5)
    for use in (
        lambda: both.tolist(),
        lambda: bool(both.sum() > 0),
        lambda: both[both > 0],
        lambda: torch.ones(4).add_(both),
        lambda: torch.ones(4).__iadd__(both),
        lambda: torch.add(both, 1, out=torch.ones(4)),
    ):
        with pytest.raises(AbsentUsed, match=r"the weight w3 is used again at test_absent_weights\.py:\d+") as found:
            use()
        assert found.value.sources == {3, 5}


def test_nothing_is_computed_from_an_absent_weight_in_the_stages_own_blocks() -> None:
    scope = Scope()
    weight = absent(4, scope=scope)
    scope.is_open = False
    assert weight.shape == (4,)
    with pytest.raises(AbsentUsed):
        weight + 1


def test_a_stand_in_says_the_number_of_its_device() -> None:
    """Gradient checkpointing asks for it, to put back that device's generator of random numbers."""
    weight: Any = SimpleNamespace(shape=(4,), dtype=torch.float32, device=torch.device("cuda", 1))
    assert make_absent(weight, "w", 0, Scope()).get_device() == 1
    assert make_stub("a block", Scope(), torch.float32, torch.device("cpu")).get_device() == -1


class Host:
    """A model bound to a file that has its weights."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Conv2d(2, 4, 3), nn.Linear(5, 8))
        self.model[2].to(memory_format=torch.channels_last)
        self.model[3].to(torch.bfloat16)
        self.model[0].weight.requires_grad_(False)
        self.inventory = take_inventory(self.model, of_stages=True)
        self.before = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self.memories = Memories(len(self.inventory.entries), torch.device("cpu"))
        offsets, floats = [], 0
        for entry in self.inventory.entries:
            offsets.append(floats)
            floats += -(-entry.count * max(1, entry.dtype.itemsize // FLOAT) // 16) * 16
        self.memories.lay_out({"offsets": offsets, "floats": floats})
        self.file = os.memfd_create("test")
        os.truncate(self.file, floats * FLOAT)
        path = f"/proc/self/fd/{self.file}"
        self.memories.map({"memory": 0, "path": path, "bytes": floats * FLOAT, "write": True})
        [span] = self.memories.spans([[0, 0, 0]])
        for index, entry in enumerate(self.inventory.entries):
            dtype = entry.dtype if entry.kind == "constant" else torch.float32
            self.memories.view(span, index, entry.count, dtype).view(entry.shape).copy_(entry.tensor.detach())
        self.memories.map({"memory": 1, "path": path, "bytes": floats * FLOAT, "write": False})
        self.use(None)

    def use(self, device: torch.device | None, copies: bool = False) -> None:
        self.binding = HostBinding(self.inventory, self.memories, copies, device)

    def bind(self, *names: str) -> None:
        entries = self.inventory.entries
        wanted = {index for index, entry in enumerate(entries) if entry.name in names} if names else None
        self.binding.bind([[0, 0, 0]], wanted)

    def held(self) -> set[str]:
        return {name for name, one in self.model.named_parameters() if one.untyped_storage().nbytes() > 4}

    def values_of(self, *names: str) -> None:
        now = self.model.state_dict()
        for name in names or self.before:
            assert torch.equal(now[name], self.before[name]), name


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    os.close(made.file)


def test_a_stage_holds_its_own_weights_and_gets_others_at_another_cut(host: Host) -> None:
    first, second = ("0.weight", "0.bias", "1.weight"), ("2.weight", "2.bias", "3.weight", "3.bias")
    for names in (first, second, first):
        host.bind(*names)
        assert host.held() == set(names)
        host.values_of(*names, "1.running_mean")
    assert not bool(torch.isfinite(host.model[3].weight).any())
    host.bind()
    host.values_of()
    assert host.model[2].weight.is_contiguous(memory_format=torch.channels_last)


OTHER = torch.device("cpu", 0)  # the same memory under a name that the model's tensors do not have


@pytest.fixture
def allocated(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """The devices on which a binding has allocated weights."""
    devices: list[torch.device] = []
    empty = torch.empty_strided

    def recorded(*arguments: Any, device: torch.device, **more: Any) -> torch.Tensor:
        devices.append(device)
        return empty(*arguments, device=device, **more)

    monkeypatch.setattr("paceline.host_binding.torch.empty_strided", recorded)
    return devices


def test_a_stage_on_another_device_allocates_its_own_weights_there(host: Host, allocated: list[torch.device]) -> None:
    host.use(OTHER, copies=True)
    first, second = ("0.weight", "0.bias", "1.weight"), ("2.weight", "2.bias", "3.weight", "3.bias")
    for names in (first, second, first):
        host.bind(*names)
        assert host.held() == set(names)
        host.values_of(*names, "1.running_mean")
        assert set(allocated) == {OTHER}
        allocated.clear()
    host.binding.bind_last([[0, 1, 0]])
    assert set(allocated) == {torch.device("cpu")}
    host.binding.release()
    host.values_of()
    assert host.model[2].weight.is_contiguous(memory_format=torch.channels_last)


def test_a_stage_lets_all_weights_go_that_leave_before_others_come(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its device may have no room for both."""
    host.use(OTHER, copies=True)
    first, second = {"0.weight", "0.bias", "1.weight"}, {"2.weight", "2.bias", "3.weight", "3.bias"}
    host.bind(*second)
    held: list[set[str]] = []
    empty = torch.empty_strided

    def recorded(*arguments: Any, **more: Any) -> torch.Tensor:
        held.append(host.held())
        return empty(*arguments, **more)

    monkeypatch.setattr("paceline.host_binding.torch.empty_strided", recorded)
    for wanted in (first, second):
        host.bind(*wanted)
        assert held and all(names <= wanted for names in held)
        held.clear()


def test_memory_of_weights_that_a_stage_lets_go_is_free_for_others_on_its_card(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch would keep it, and other processes and libraries take memory there too."""
    emptied: list[set[str]] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(host.held()))

    def on_the_cpu(make: Any) -> Any:
        return lambda *arguments, device, **more: make(*arguments, **more)

    for name in ("full", "empty_strided"):
        monkeypatch.setattr(torch, name, on_the_cpu(getattr(torch, name)))
    first, second = {"0.weight", "0.bias"}, {"2.weight", "2.bias"}
    host.use(None, copies=True)
    host.bind(*first)
    assert emptied == []
    host.binding.release()
    host.use(None, copies=True)
    host.binding._devices = [torch.device("cuda", 0)] * len(host.inventory.entries)
    host.bind(*second)
    assert emptied == [second]
    host.bind(*first)  # PyTorch itself has a use for the memory from now on
    assert emptied == [second]


@pytest.mark.parametrize("function", ["empty_strided", "full"])
def test_a_stage_without_room_for_its_weights_can_be_another_one(
    host: Host, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """full: not even for the one value in place of weights that it lets go."""
    host.use(OTHER, copies=True)
    host.bind("0.weight", "0.bias")
    with monkeypatch.context() as short:
        short.setattr(f"paceline.host_binding.torch.{function}", lambda *_, **__: [][1])
        with pytest.raises(IndexError):
            host.bind("2.weight", "3.weight")
    host.bind("2.weight", "2.bias")
    assert host.held() == {"2.weight", "2.bias"}
    host.values_of("2.weight", "2.bias")


def test_a_stage_on_another_device_goes_home_if_the_run_fails(host: Host, allocated: list[torch.device]) -> None:
    host.use(OTHER, copies=True)
    host.bind("0.weight", "0.bias")
    allocated.clear()
    host.binding.release()
    assert set(allocated) == {torch.device("cpu")}
    host.values_of()


def test_a_stage_on_another_device_goes_on_after_it_was_home(host: Host, allocated: list[torch.device]) -> None:
    host.use(OTHER, copies=True)
    host.binding.bind_last([[0, 1, 0]])
    allocated.clear()
    host.bind("0.weight", "0.bias")
    assert host.held() == {"0.weight", "0.bias"}
    assert set(allocated) == {OTHER}


def test_after_the_job_each_process_has_its_weights_for_itself_and_copies_what_it_writes(host: Host) -> None:
    host.binding.bind_last([[0, 1, 0]])
    host.binding.release()
    host.values_of()
    with torch.no_grad():
        host.model[0].bias.add_(1)
        host.model[0].bias.zero_()
    host.bind()
    host.values_of()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_stage_on_a_gpu_moves_its_own_weights_there_and_goes_home(host: Host) -> None:
    card = torch.device("cuda", 0)
    host.use(card)
    for names in (("0.weight", "0.bias", "1.weight"), ("2.weight", "2.bias", "3.weight", "3.bias")):
        host.bind(*names)
        assert host.held() == set(names)
        assert {one.device for one in host.model.state_dict().values()} == {card}
        for name in names:
            assert torch.equal(host.model.state_dict()[name].cpu(), host.before[name]), name
    host.binding.bind_last([[0, 1, 0]])
    host.binding.release()
    host.values_of()
    assert torch.cuda.memory_allocated(card) == 0


def test_a_process_copies_weights_that_are_not_the_last_ones(host: Host) -> None:
    """Their memory may be written to by the next update."""
    host.binding.bind_last([[0, 1, 0]])
    host.binding.bind([[0, 1, 0]])
    host.binding.release()
    host.memories.memory(host.memories.spans([[0, 0, 0]])[0]).view(0, host.memories.floats, torch.float32).zero_()
    host.values_of()


def test_after_the_job_a_stage_has_the_whole_model(host: Host) -> None:
    host.bind("0.weight", "0.bias")
    host.binding.release()
    host.values_of()
