"""The measurements of a model's parts against counts made by hand."""

from __future__ import annotations

import importlib.util
import time
import weakref
from typing import Any, Callable

import pytest
import torch
from stage_models import gpt2
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from paceline.cuts import find_cuts
from paceline.errors import PacelineError
from paceline.inventory import take_inventory
from paceline.loading import Load, Loads
from paceline.profiling import _Measuring, profile, sizes_up_to
from paceline.unit_clock import UnitClock
from paceline.unit_placement import UnitPlacement

pytestmark = pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later")
CPU = torch.device("cpu")


def measured(
    model: nn.Module,
    loss: Callable[[Any, Any], Any],
    get: Callable[[int], Any],
    sizes: list[int],
    device: torch.device = CPU,
) -> Any:
    inventory = take_inventory(model, of_stages=True)
    cuts = find_cuts(model, inventory, loss, get(2), 2, None)
    return profile(model, inventory, loss, cuts, get, device, sizes)


def squares(model: Any, batch: Any) -> Any:
    return model(batch).sum()


def linears(*widths: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(a, b) for a, b in zip(widths, widths[1:])))


def test_a_linear_stack_keeps_its_inputs_and_sends_its_outputs() -> None:
    found = measured(linears(6, 10, 4, 8), squares, lambda count: torch.randn(count, 6), [2, 4])
    units = found["units"]
    assert found["micro_batches"] == [2, 4]
    assert [unit["parameters"] for unit in units] == [6 * 10 + 10, 10 * 4 + 4, 4 * 8 + 8]
    assert [unit["parameter_bytes"] for unit in units] == [4 * 70, 4 * 44, 4 * 40]
    assert [unit["sent_bytes"] for unit in units] == [4 * 10, 4 * 4, 0]
    # A Linear keeps its input, and a sum nothing.
    assert [unit["kept_bytes"] for unit in units] == [4 * 6, 4 * 10, 4 * 4]
    for unit in [*units, found["whole"]]:
        # The gradient alone needs that much.
        least = unit.get("parameter_bytes", 4 * 154)
        assert unit["peak_bytes"] is None or least < unit["peak_bytes"] < 4 * least + 4096
    for unit in units:
        assert len(unit["forward_ms"]) == len(unit["backward_ms"]) == 2
        assert min(unit["forward_ms"] + unit["backward_ms"]) > 0


def test_memory_that_is_saved_twice_counts_once() -> None:
    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * self.scale  # keeps x
            return y * y.view(-1, 6)  # keeps y twice

    model = nn.Sequential(Square(), Square())
    units = measured(model, squares, lambda count: torch.randn(count, 6), [4])["units"]
    assert [unit["kept_bytes"] for unit in units] == [2 * 4 * 6, 2 * 4 * 6]


def test_an_output_that_its_unit_saves_counts_in_the_unit_behind_alone() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))  # a ReLU saves its result
    units = measured(model, squares, lambda count: torch.randn(count, 6), [4])["units"]
    assert [unit["kept_bytes"] for unit in units] == [4 * 6, 4 * 6, 4 * 6]


def test_memory_that_comes_and_goes_has_a_part_for_each_sample() -> None:
    class Busy(nn.Module):
        def __init__(self, fixed: int, each: int) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 6)
            self.sizes = fixed, each

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            fixed, each = self.sizes
            with torch.no_grad():
                torch.zeros(fixed)
                torch.zeros(len(x), each)
            return self.linear(x)

    model = nn.Sequential(Busy(100_000, 0), Busy(0, 10_000), Busy(0, 0))
    fixed, each, idle = measured(model, squares, lambda count: torch.randn(count, 6), [2, 8])["units"]
    assert 400_000 <= fixed["working_fixed_bytes"] < 410_000
    assert 39_000 < each["working_bytes"] < 41_000
    assert each["working_bytes"] > 100 * max(idle["working_bytes"], fixed["working_bytes"])
    assert [unit["kept_bytes"] for unit in (fixed, each, idle)] == [4 * 6] * 3


class Masked(nn.Module):
    """Keeps a mask of so many numbers for its backward pass, whatever the number of samples is."""

    def __init__(self, fixed: int) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.fixed = fixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * torch.ones(self.fixed)[:6]


def test_memory_that_is_kept_has_a_part_whatever_the_size_is() -> None:
    model = nn.Sequential(Masked(1000), Masked(6), nn.Linear(6, 6))
    units = measured(model, squares, lambda count: torch.randn(count, 6), [2, 8])["units"]
    assert [unit["kept_bytes"] for unit in units] == [4 * 6] * 3
    assert [unit["kept_fixed_bytes"] for unit in units] == [4 * 1000, 4 * 6, 0]


@pytest.mark.parametrize("reentrant", [False, True])
def test_memory_that_a_second_forward_pass_saves_is_not_kept(reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(6, 600), nn.ReLU(), nn.Linear(600, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    model = nn.Sequential(Checkpointed(), Checkpointed())
    units = measured(model, squares, lambda count: torch.randn(count, 6, requires_grad=True), [4])["units"]
    assert [unit["kept_bytes"] for unit in units] == [4 * 6] * 2


def test_frozen_weights_are_not_trained() -> None:
    model = linears(6, 10, 4, 8)
    model[0].requires_grad_(False)
    model[1].bias.requires_grad_(False)
    units = measured(model, squares, lambda count: torch.randn(count, 6), [2])["units"]
    assert [unit["parameters"] for unit in units] == [70, 44, 40]
    assert [unit["trained"] for unit in units] == [0, 40, 40]
    assert [unit["frozen_bytes"] for unit in units] == [4 * 70, 4 * 4, 0]


class Gpt(nn.Module):
    """A small model of the kind, with its own embeddings and a head that is not tied."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.blocks = nn.Sequential(
            *(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True) for _ in range(3))
        )
        self.head = nn.Linear(16, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embed(ids)))


def next_token(model: Any, ids: Any) -> Any:
    return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


def test_parts_before_and_behind_the_blocks_are_with_the_first_and_the_last() -> None:
    model = Gpt()
    found = measured(model, next_token, lambda count: torch.randint(50, (count, 7)), [2, 4])
    block = sum(parameter.numel() for parameter in model.blocks[0].parameters())
    assert [unit["parameters"] for unit in found["units"]] == [50 * 16 + block, block, block + 16 * 50 + 50]
    assert sum(unit["trained"] for unit in found["units"]) == sum(one.numel() for one in model.parameters())
    assert [unit["sent_bytes"] for unit in found["units"]] == [4 * 7 * 16, 4 * 7 * 16, 0]


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
def test_a_gpt2_has_each_parameter_once_and_its_tied_head_in_both() -> None:
    model, train_set, loss = gpt2()
    loads = Loads(train_set, None)
    found = measured(model, loss, lambda count: loads[Load(tuple(range(count)), 0)], [2, 4])
    units = found["units"]
    assert sum(unit["parameters"] for unit in units) == sum(one.numel() for one in model.parameters())
    tokens, positions = 64 * 16, 32 * 16
    block = sum(one.numel() for one in model.transformer.h[0].parameters())
    assert [unit["parameters"] for unit in units] == [tokens + positions + block, block, block, block + 2 * 16]
    assert [unit["tied_bytes"] for unit in units] == [0, 0, 0, 4 * tokens]
    assert units[3]["tied_to"] == 0
    assert [unit["returned_bytes"] for unit in units] == [4 * tokens] * 3 + [0]


def test_nothing_is_trained_and_no_gradient_stays() -> None:
    model = linears(6, 10, 4)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    measured(model, squares, lambda count: torch.randn(count, 6), [2])
    for parameter, old in zip(model.parameters(), before):
        assert torch.equal(parameter, old)
        assert parameter.grad is None


class Prepared(nn.Module):
    """Small blocks behind work that every stage does again."""

    def __init__(self, blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = blocks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = torch.linalg.qr(x @ x.T + torch.eye(len(x)))[0] @ x
        return self.blocks(x)


def of_all_units(found: Any, key: str) -> float:
    return sum(unit[key][-1] for unit in found["units"])


def test_work_before_the_blocks_counts_once() -> None:
    model = Prepared(linears(*[64] * 9))
    found = measured(model, squares, lambda count: torch.randn(64, 64), [8])
    assert len(found["units"]) == 8
    # Eight stages would do it eight times.
    assert of_all_units(found, "forward_ms") < 3 * found["whole"]["forward_ms"]
    assert found["units"][0]["forward_ms"][-1] > of_all_units(found, "forward_ms") / 2


def test_units_add_up_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.profiling.time.perf_counter", time.process_time)  # whatever else the machine does
    monkeypatch.setattr("paceline.unit_clock.time.perf_counter", time.process_time)
    found = measured(Gpt(), next_token, lambda count: torch.randint(50, (count, 7)), [2, 8])
    for key in ("forward_ms", "backward_ms"):
        assert found["whole"][key] / 2 < of_all_units(found, key) < 2 * found["whole"][key]


def test_backward_passes_are_of_the_units_that_are_trained() -> None:
    model = linears(*[256] * 5)
    model[:2].requires_grad_(False)
    units = measured(model, squares, lambda count: torch.randn(count, 256), [64])["units"]
    backward = [unit["backward_ms"][0] for unit in units]
    assert backward[0] == 0 and backward[3] > 0
    assert all(unit["forward_ms"][0] > 0 for unit in units)


def test_blocks_that_a_backward_pass_calls_again_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [(1e9, 1e9)] * 4
    monkeypatch.setattr("paceline.profiling._Measuring._times_alone", lambda self, size: alone)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = linears(*[256] * 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

    found = measured(Checkpointed(), squares, lambda count: torch.randn(count, 256, requires_grad=True), [256])
    assert len(found["units"]) == 4
    for unit in found["units"]:
        assert 0 < unit["forward_ms"][0] < 1e9 and 0 < unit["backward_ms"][0] < 1e9


def test_units_whose_times_cannot_be_told_apart_are_measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnitClock, "times", lambda self: None)
    units = measured(linears(6, 10, 4), squares, lambda count: torch.randn(count, 6), [2, 4])["units"]
    assert all(len(unit["forward_ms"]) == 2 and min(unit["backward_ms"]) > 0 for unit in units)


def test_a_program_that_changes_its_batch_gets_a_whole_one_each_time() -> None:
    def loss(model: Any, batch: Any) -> Any:
        return model(batch.pop("x")).sum()

    found = measured(linears(6, 10, 4), loss, lambda count: {"x": torch.randn(count, 6)}, [2])
    assert len(found["units"]) == 2


@pytest.mark.parametrize(
    ("most", "least", "samples", "sizes"),
    [
        (8, 1, 100, [1, 2, 4, 8]),
        (64, 1, 100, [2, 4, 8, 16, 32, 64]),
        (1, 1, 100, [1, 2]),
        (2, 1, 100, [1, 2]),
        (3, 1, 100, [1, 3]),
        (8, 4, 100, [4, 8]),
        (1, 2, 100, [2, 4]),
        (8, 1, 5, [1, 2, 5]),
        (8, 1, 1, [1]),
    ],
)
def test_sizes_of_micro_batches(most: int, least: int, samples: int, sizes: list[int]) -> None:
    assert sizes_up_to(most, least, samples) == sizes


def test_times_are_those_of_a_usual_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass in three takes ten times as long, and one a tenth: neither counts."""
    now, passes = [0.0], [0]
    monkeypatch.setattr("paceline.profiling.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("paceline.unit_clock.time.perf_counter", lambda: now[0])

    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            passes[0] += 1
            now[0] += 0.01 * (10.0, 1.0, 0.1)[passes[0] // 2 % 3]
            return self.linear(x)

    units = measured(nn.Sequential(Slow(), Slow()), squares, lambda count: torch.randn(count, 6), [4])["units"]
    assert [unit["forward_ms"] for unit in units] == [[pytest.approx(10)]] * 2


def test_a_size_that_takes_too_long_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.profiling._MOST_SECONDS", 0)
    found = measured(linears(6, 10, 4), squares, lambda count: torch.randn(count, 6), [2, 4, 8])
    assert found["micro_batches"] == [2]
    assert len(found["units"][0]["forward_ms"]) == 1


# The same memory under a name that the model's tensors do not have, so that it counts as another device.
OTHER = torch.device("cpu", 0)


class Placed:
    """Records which weights each pass has, and lets so many numbers have room on the device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, error: Exception | None = None) -> None:
        self.seen: set[frozenset[str]] = set()
        self._held = 0
        there, placed = UnitPlacement._there, UnitPlacement.placed

        def allocate(placement: UnitPlacement, values: torch.Tensor) -> torch.Tensor:
            self._held += values.numel()
            if self._held > room:
                raise error or torch.cuda.OutOfMemoryError("no room")
            return there(placement, values)

        def begin(placement: UnitPlacement, wanted: set[int] | None) -> Any:
            self._held = 0
            return placed(placement, wanted)

        monkeypatch.setattr(UnitPlacement, "_there", allocate)
        monkeypatch.setattr(UnitPlacement, "placed", begin)

    def loss(self, model: Any, batch: Any) -> Any:
        if batch.device.type != "meta":
            self.seen.add(frozenset(name for name, one in model.named_parameters() if one.stride()[-1] != 0))
        return model(batch).sum()


NO_ROOM = [
    torch.cuda.OutOfMemoryError("no room"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]


@pytest.mark.parametrize(("room", "error"), [(70, NO_ROOM[0]), (70, NO_ROOM[1]), (154, NO_ROOM[0])])
def test_a_model_is_measured_part_by_part_on_a_device_that_does_not_hold_it(
    monkeypatch: pytest.MonkeyPatch, room: int, error: Exception
) -> None:
    model = linears(6, 10, 4, 8)  # 70, 44 and 40 numbers
    home = {name: one.data_ptr() for name, one in model.named_parameters()}
    placed = Placed(monkeypatch, room, error)
    there = measured(model, placed.loss, lambda count: torch.ones(count, 6), [2, 4], OTHER)
    assert {name: one.data_ptr() for name, one in model.named_parameters()} == home
    parts = {frozenset((f"{part}.weight", f"{part}.bias")) for part in range(3)}
    assert placed.seen == parts | ({frozenset(home)} if room == 154 else set())
    assert (there["whole"] is None) == (room == 70)
    here = measured(linears(6, 10, 4, 8), squares, lambda count: torch.ones(count, 6), [2, 4])
    for one, other in zip(there["units"], here["units"]):
        assert one.keys() == other.keys()
        assert min(one["forward_ms"] + one["backward_ms"]) > 0
        noisy = ("forward_ms", "backward_ms", "peak_bytes", "working_bytes", "working_fixed_bytes")
        assert {key: one[key] for key in one if key not in noisy} == {
            key: other[key] for key in other if key not in noisy
        }
        assert abs(one["peak_bytes"] - other["peak_bytes"]) < 4096


@pytest.mark.parametrize("error", NO_ROOM)
def test_a_part_without_room_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    placed = Placed(monkeypatch, 60, error)
    with pytest.raises(
        PacelineError, match="a unit of the model has no room on cpu:0 with 2 samples; write a smaller --micro-batch"
    ):
        measured(linears(6, 10, 4, 8), placed.loss, lambda count: torch.ones(count, 6), [2, 4], OTHER)


def test_a_backward_pass_without_memory_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[weakref.ref[Any]] = []
    one_piece = _Measuring.one_piece

    def make(measuring: _Measuring, size: int) -> Any:
        stage = one_piece(measuring, size)
        stages.append(weakref.ref(stage))
        return stage

    monkeypatch.setattr(_Measuring, "one_piece", make)

    class Short(torch.autograd.Function):
        failed = False

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            if stages and not Short.failed:
                Short.failed = True
                raise torch.cuda.OutOfMemoryError("no room")
            return gradient

    class Linear(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert not Short.failed or len(stages) > 1 or stages[0]() is None, "it has memory still"
            return Short.apply(super().forward(x))  # type: ignore[no-any-return]

    model = nn.Sequential(*(Linear(6, 6) for _ in range(3)))
    measured(model, squares, lambda count: torch.ones(count, 6), [2])
    assert Short.failed and len(stages) == 2
