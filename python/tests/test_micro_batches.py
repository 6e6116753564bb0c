"""The gradient of a batch in parts, as MicroBatches adds it up."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from paceline.inventory import take_inventory
from paceline.measures import metrics_on, scalar
from paceline.micro_batches import MicroBatches, cut, scaled_at_end


def added_up(takes: bool, size: int, weights: list[float] | None = None) -> tuple[nn.Linear, torch.Tensor]:
    """A layer with the gradient of 8 samples in parts of `size`, and the memory in which the first part's was."""
    torch.manual_seed(0)
    layer, x = nn.Linear(5, 3), torch.randn(8, 5)
    memory = torch.zeros(3, 5)
    layer.weight.grad = memory
    parts = cut(tuple(range(8)), size)
    micro = MicroBatches(take_inventory(layer, True), parts)
    micro.takes_gradients = takes
    for number, part in enumerate(parts):
        micro.start(number)
        loss = layer(x[list(part)]).square().mean()
        loss.backward()
        micro.measured(loss.item(), {}, None if weights is None else weights[number])
        micro.collect()
    return layer, memory


@pytest.mark.parametrize(("size", "weights"), [(2, None), (4, None), (3, None), (4, [1.5, 0.25]), (4, [0.0, 2.0])])
def test_sums_have_the_same_bits_in_the_memory_of_the_first_gradient(size: int, weights: Any) -> None:
    copied, _ = added_up(False, size, weights)
    taken, memory = added_up(True, size, weights)
    for one, other in zip(copied.parameters(), taken.parameters()):
        assert torch.equal(one.grad, other.grad)
    assert taken.weight.grad.data_ptr() == memory.data_ptr()


class _Added(nn.Module):
    """The gradients of its parameters lie in one memory."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.zeros(4)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.a.unsqueeze(0) + self.b.unsqueeze(0))


@pytest.mark.parametrize("takes", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_gradients_in_one_memory_count_once_each(takes: bool, size: int) -> None:
    added = _Added()
    micro = MicroBatches(take_inventory(added, True), cut((1, 2, 3, 4, 5), size))
    micro.takes_gradients = takes
    for number, part in enumerate(micro.parts):
        micro.start(number)
        added(torch.tensor(part).float().unsqueeze(1)).sum().div(len(part)).backward()
        if number == 0:
            assert added.a.grad.data_ptr() == added.b.grad.data_ptr()
        micro.measured(0.0, {})
        micro.collect()
    for one in (added.a.grad, added.b.grad):
        assert torch.allclose(one, torch.full((4,), 3.0))


def test_a_part_of_no_sample_behind_others_changes_nothing() -> None:
    layer = nn.Linear(5, 3)
    micro = MicroBatches(take_inventory(layer, True), [(0, 1), (2, 3)])
    micro.takes_gradients = True
    micro.start(0)
    loss = layer(torch.ones(2, 5)).sum()
    loss.backward()
    whole = layer.weight.grad.clone()
    micro.measured(loss.item(), {})
    micro.collect()
    micro.start(1)
    micro.nothing()
    assert torch.equal(layer.weight.grad, whole / 2)


def test_a_loss_is_a_mean_also_if_the_last_part_has_no_sample() -> None:
    micro = MicroBatches(take_inventory(nn.Linear(5, 3), True), [(0, 1), (2, 3), (4, 5)])
    for part, (loss, weight) in enumerate([(1.0, 2.0), (4.0, 1.0)]):
        micro.start(part)
        micro.measured(loss, {}, weight)
        micro.collect()
    micro.start(2)
    micro.nothing()
    assert (micro.loss, micro.weight, micro.skipped) == (2.0, 3.0, False)


def test_nobody_waits_for_numbers_that_are_read_later() -> None:
    """The number of a tensor on `meta` cannot be read."""
    there = torch.device("meta")
    micro = MicroBatches(take_inventory(nn.Linear(5, 3), True), [(0, 1), (2, 3, 4), (5,)])
    for part in range(3):
        micro.start(part)
        metrics = metrics_on({"there": torch.ones((), device=there), "here": torch.ones(1), "plain": part}, there)
        micro.measured(scalar(torch.ones(1, device=there), there), metrics)
    assert micro.metrics.pop("there").device == there == micro.loss.device  # type: ignore[union-attr]
    assert micro.metrics == {"here": 1.0, "plain": pytest.approx((3 * 1 + 2) / 6)}


def test_a_metric_is_the_mean_over_the_parts_that_have_it() -> None:
    here = torch.device("cpu")
    nan, two, five = math.nan, torch.tensor(2.0), torch.tensor(5.0)
    values: dict[str, list[Any]] = {
        "all": [two, two, five],
        "not finite": [torch.tensor(nan), two, five],
        "read and not": [2.0, two, 5.0],
        "never": [torch.tensor(nan), torch.tensor(math.inf), torch.tensor(nan)],
        "never, and read": [nan, math.inf, nan],
    }
    for later in (None, here):
        micro = MicroBatches(take_inventory(nn.Linear(5, 3), True), [(0, 1), (2, 3), (4, 5, 6, 7)])
        for part in range(3):
            micro.start(part)
            micro.measured(0.0, metrics_on({name: value[part] for name, value in values.items()}, later))
        found = {name: float(value) for name, value in micro.metrics.items() if math.isfinite(value)}
        assert found == pytest.approx({"all": 3.5, "not finite": 4.0, "read and not": 3.5})


def test_a_last_part_of_one_sample_takes_one_from_the_part_before_it() -> None:
    def sizes(samples: int, most: int | None) -> list[int]:
        parts = cut(tuple(range(samples)), most)
        assert [index for part in parts for index in part] == list(range(samples))
        return [len(part) for part in parts]

    assert sizes(12, 5) == [5, 5, 2]
    assert sizes(12, 11) == [10, 2]
    assert sizes(9, 4) == [4, 3, 2]
    assert sizes(4, 3) == [2, 2]
    assert sizes(8, 4) == [4, 4]
    assert sizes(5, 2) == [2, 2, 1] and sizes(3, 1) == [1, 1, 1]  # no other cut has fewer than that
    assert sizes(1, 4) == [1] and sizes(5, None) == [5] and sizes(0, 3) == []


def test_shares_come_at_the_end_if_they_are_equal_powers_of_two() -> None:
    floats = [torch.float32]
    assert scaled_at_end([(0, 1), (2, 3)], floats)
    assert not scaled_at_end([(0, 1), (2,)], floats)
    assert not scaled_at_end([(0,), (1,), (2,)], floats)
    assert not scaled_at_end([(0, 1), (2, 3)], [torch.float32, torch.float16])
